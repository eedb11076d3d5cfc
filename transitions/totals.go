package transitions

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// bill is the input of invoice.totals.
type bill struct {
	Invoice string `json:"invoice"` // the number the document must carry
	Text    string `json:"text"`
}

// totals is its result: what the document says, checked.
type totals struct {
	Customer string     `json:"customer"`
	Currency string     `json:"currency"`
	Lines    []lineItem `json:"lines"`
	Subtotal cents      `json:"subtotal"`
	Tax      cents      `json:"tax"`
	Total    cents      `json:"total"`
}

// lineItem is one line of a bill.
type lineItem struct {
	Item     string `json:"item"`
	Quantity string `json:"quantity"`
	Price    cents  `json:"price"`
	Amount   cents  `json:"amount"`
}

const (
	maxLines     = 200   // line items of a document
	maxTaxRate   = 10000 // hundredths of a percent
	maxItemBytes = 200
)

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// extractTotals performs invoice.totals. A document is lines of text:
//
//	Invoice: inv-4412
//	Customer: customer-17
//	Currency: EUR
//	Sensor kit | 2 | 49.90 | 99.80       item, quantity, price, amount
//	Subtotal: 99.80                      may be left out
//	Tax 19%: 18.96                       may be left out
//	Total: 118.76
//
// Every amount is computed again from the quantities and prices; a document
// that contradicts itself is refused, with the line.
func extractTotals(_ context.Context, _ string, in bill) (totals, error) {
	p := parser{fields: make(map[string]string)}
	if err := p.read(in.Text); err != nil {
		return totals{}, statemachine.Terminal("malformed_invoice", err)
	}
	if number := p.fields["invoice"]; number != in.Invoice {
		return totals{}, statemachine.Terminal("wrong_invoice", fmt.Errorf("the document is invoice %q, not %q", number, in.Invoice))
	}
	if err := p.check(); err != nil {
		return totals{}, statemachine.Terminal("inconsistent_totals", err)
	}
	return p.totals, nil
}

// parser reads a document.
type parser struct {
	totals
	n        int // of the line
	fields   map[string]string
	subtotal *cents // as stated
	taxRate  int64  // hundredths of a percent
	tax      *cents // as stated
	wrong    error  // the first line item that contradicts itself
}

func (p *parser) read(document string) error {
	for line := range strings.Lines(document) {
		p.n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.line(line); err != nil {
			return fmt.Errorf("line %d: %w", p.n, err)
		}
	}
	p.Customer, p.Currency = p.fields["customer"], p.fields["currency"]
	switch {
	case p.fields["invoice"] == "":
		return errors.New("the document has no line \"Invoice: …\"")
	case p.Customer == "":
		return errors.New("the document has no line \"Customer: …\"")
	case !currencyCode.MatchString(p.Currency):
		return fmt.Errorf("currency %q is no code of three capital letters", p.Currency)
	case len(p.Lines) == 0:
		return errors.New("the document has no line item \"item | quantity | price | amount\"")
	case p.fields["total"] == "":
		return errors.New("the document has no line \"Total: …\"")
	}
	return nil
}

func (p *parser) line(line string) error {
	if strings.Contains(line, "|") {
		return p.item(line)
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q is neither \"Name: value\" nor a line item", clip(line))
	}
	name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
	rate, isTax := strings.CutPrefix(name, "tax")
	if isTax {
		name = "tax"
	}
	if _, twice := p.fields[name]; twice {
		return fmt.Errorf("%q stands there twice", name)
	}
	p.fields[name] = value
	switch {
	case isTax:
		return p.taxLine(strings.TrimSpace(rate), value)
	case name == "subtotal":
		return p.amount(value, &p.subtotal)
	case name == "total":
		var stated *cents
		if err := p.amount(value, &stated); err != nil {
			return err
		}
		p.Total = *stated
	case name == "invoice", name == "customer", name == "currency", name == "date", name == "due", name == "note":
	default:
		return fmt.Errorf("%q is not known here", clip(name))
	}
	return nil
}

func (p *parser) amount(value string, into **cents) error {
	v, err := parseDecimal(value, 2, maxCents)
	if err != nil {
		return err
	}
	c := cents(v)
	*into = &c
	return nil
}

func (p *parser) taxLine(rate, value string) error {
	percent, ok := strings.CutSuffix(rate, "%")
	if !ok {
		return errors.New("a tax line is \"Tax 19%: amount\"")
	}
	var err error
	if p.taxRate, err = parseDecimal(strings.TrimSpace(percent), 2, maxTaxRate); err != nil {
		return err
	}
	if p.taxRate < 0 {
		return errors.New("a tax rate is not negative")
	}
	return p.amount(value, &p.tax)
}

func (p *parser) item(line string) error {
	cells := strings.Split(line, "|")
	if len(cells) != 4 {
		return errors.New("a line item is \"item | quantity | price | amount\"")
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if len(p.Lines) == maxLines {
		return fmt.Errorf("a document has at most %d line items", maxLines)
	}
	if cells[0] == "" || len(cells[0]) > maxItemBytes {
		return fmt.Errorf("the name of an item has 1 to %d bytes", maxItemBytes)
	}
	quantity, err := parseDecimal(cells[1], 3, maxQuantity)
	if err != nil {
		return err
	}
	price, err := parseDecimal(cells[2], 2, maxCents)
	if err != nil {
		return err
	}
	amount, err := parseDecimal(cells[3], 2, maxCents)
	if err != nil {
		return err
	}
	if want := cents(price).times(quantity, 1000); want != cents(amount) && p.wrong == nil {
		p.wrong = fmt.Errorf("line %d: %s × %s is %s, the document says %s", p.n, cells[1], cents(price), want, cents(amount))
	}
	p.Lines = append(p.Lines, lineItem{Item: cells[0], Quantity: cells[1], Price: cents(price), Amount: cents(amount)})
	return nil
}

// check computes the sums again.
func (p *parser) check() error {
	if p.wrong != nil {
		return p.wrong
	}
	for _, l := range p.Lines {
		p.Subtotal += l.Amount
	}
	if p.Subtotal > maxCents || p.Subtotal < -maxCents {
		return errors.New("the sum of the line items is too large")
	}
	p.Tax = p.Subtotal.times(p.taxRate, 10_000)
	if p.subtotal != nil && *p.subtotal != p.Subtotal {
		return fmt.Errorf("the line items add up to %s, the document says subtotal %s", p.Subtotal, *p.subtotal)
	}
	if p.tax != nil && *p.tax != p.Tax {
		return fmt.Errorf("the tax on %s is %s, the document says %s", p.Subtotal, p.Tax, *p.tax)
	}
	if sum := p.Subtotal + p.Tax; sum != p.Total {
		return fmt.Errorf("subtotal %s and tax %s make %s, the document says total %s", p.Subtotal, p.Tax, sum, p.Total)
	}
	return nil
}

func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
