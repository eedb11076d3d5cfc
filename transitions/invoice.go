package transitions

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/pawlrun/pawl/statemachine"
)

// invoiceData is what a run of "invoice" is about. The first three fields are
// its input.
type invoiceData struct {
	Invoice  string `json:"invoice"` // number of the invoice; the document must carry it
	To       string `json:"to"`      // the customer's e-mail address
	Document source `json:"document"`

	Text    string   `json:"text,omitempty"` // of the document, until the totals are known
	Totals  *totals  `json:"totals,omitempty"`
	Entry   string   `json:"entry,omitempty"` // of the ledger
	Receipt *receipt `json:"receipt,omitempty"`
}

// invoice reads a document, extracts its totals, posts them to the ledger and
// tells the customer. The keys of the last two name the invoice, not the run:
// two runs about one invoice post it once and send one e-mail.
func invoice() *statemachine.Machine[invoiceData] {
	m := statemachine.New[invoiceData]("invoice", 1)
	m.Index("invoice", (*invoiceData).number)
	m.Index("customer", (*invoiceData).customer)
	m.State("read", statemachine.Call(docFetch, (*invoiceData).where, (*invoiceData).read).Flow((*invoiceData).host)).
		Catch("not_found", "rejected").Catch("not_text", "rejected").Catch("document_too_large", "rejected")
	m.State("extract", statemachine.Call(invoiceTotals, (*invoiceData).bill, (*invoiceData).extracted)).
		Catch("malformed_invoice", "rejected").Catch("wrong_invoice", "rejected").Catch("inconsistent_totals", "rejected")
	m.State("post", statemachine.Call(ledgerPost, (*invoiceData).posting, (*invoiceData).posted).Key((*invoiceData).ledgerKey))
	m.State("email", statemachine.Call(emailSend, (*invoiceData).letter, (*invoiceData).sent).Key((*invoiceData).emailKey))
	m.Succeed("done")
	m.Fail("rejected", "invoice_rejected")
	return m
}

func (i *invoiceData) host() string { return flowHost(i.Document.URL) }

// maxInvoice leaves room in a key for what stands before the number.
const maxInvoice = 100

// Validate says what is wrong with the input.
func (i *invoiceData) Validate() error {
	var faults []error
	strange := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if i.Invoice == "" || len(i.Invoice) > maxInvoice || strings.ContainsFunc(i.Invoice, strange) {
		faults = append(faults, fmt.Errorf("invoice: a number of 1 to %d bytes without spaces is needed, not %q", maxInvoice, clip(i.Invoice)))
	}
	if err := checkAddress(i.To); err != nil {
		faults = append(faults, errors.New("to: "+err.Error()))
	}
	if err := i.Document.validate(); err != nil {
		faults = append(faults, errors.New("document: "+err.Error()))
	}
	if i.Text != "" || i.Totals != nil || i.Entry != "" || i.Receipt != nil {
		faults = append(faults, errors.New("text, totals, entry and receipt are results: they cannot be given"))
	}
	return errors.Join(faults...)
}

func (i *invoiceData) number() string { return i.Invoice }

func (i *invoiceData) customer() string {
	if i.Totals == nil {
		return ""
	}
	return i.Totals.Customer
}

func (i *invoiceData) where() source { return i.Document }

func (i *invoiceData) read(d document) {
	i.Text = d.Text
	i.Document.Text = "" // carried once; the run's first record keeps the input
}

func (i *invoiceData) bill() bill { return bill{Invoice: i.Invoice, Text: i.Text} }

func (i *invoiceData) extracted(t totals) {
	i.Totals = &t
	i.Text = ""
}

func (i *invoiceData) posting() posting {
	t := i.Totals
	return posting{Invoice: i.Invoice, Customer: t.Customer, Currency: t.Currency, Subtotal: t.Subtotal, Tax: t.Tax, Total: t.Total}
}

func (i *invoiceData) ledgerKey() string { return "ledger:" + i.Invoice }

func (i *invoiceData) posted(p posted) { i.Entry = p.Entry }

func (i *invoiceData) letter() letter {
	t := i.Totals
	return letter{
		To:      i.To,
		Subject: "Invoice " + i.Invoice,
		Body:    fmt.Sprintf("Your invoice %s over %s %s was posted as %s.", i.Invoice, t.Currency, t.Total, i.Entry),
	}
}

func (i *invoiceData) emailKey() string { return "email:" + i.Invoice }

func (i *invoiceData) sent(r receipt) { i.Receipt = &r }
