package transitions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const goodInvoice = `Invoice: inv-4412
Customer: customer-17
Currency: EUR

Sensor | 2 | 149.90 | 299.80
Work | 1.5 | 84.00 | 126.00
Discount | 1 | -25.80 | -25.80

Subtotal: 400.00
Tax 19%: 76.00
Total: 476.00
`

func TestExtractTotals(t *testing.T) {
	t.Parallel()
	got, err := extractTotals(t.Context(), "k", bill{Invoice: "inv-4412", Text: goodInvoice})
	if err != nil {
		t.Fatal(err)
	}
	want := totals{
		Customer: "customer-17", Currency: "EUR", Subtotal: 40000, Tax: 7600, Total: 47600,
		Lines: []lineItem{
			{"Sensor", "2", 14990, 29980},
			{"Work", "1.5", 8400, 12600},
			{"Discount", "1", -2580, -2580},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("extractTotals differs (-want +got):\n%s", diff)
	}
}

func TestExtractTotalsRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, old, new, class, says string
	}{
		{"a line that contradicts itself", "299.80", "299.90", "inconsistent_totals", "line 5: 2 × 149.90 is 299.80, the document says 299.90"},
		{"a wrong subtotal", "Subtotal: 400.00", "Subtotal: 400.01", "inconsistent_totals", "add up to 400.00"},
		{"a wrong tax", "76.00", "76.01", "inconsistent_totals", "the tax on 400.00 is 76.00"},
		{"a wrong total", "476.00", "467.00", "inconsistent_totals", "make 476.00, the document says total 467.00"},
		{"a tax that is left out but charged", "Tax 19%: 76.00\n", "", "inconsistent_totals", "tax 0.00"},
		{"another invoice", "inv-4412", "inv-4413", "wrong_invoice", `invoice "inv-4413", not "inv-4412"`},
		{"no customer", "Customer: customer-17\n", "", "malformed_invoice", "Customer"},
		{"no currency", "EUR", "€", "malformed_invoice", "three capital letters"},
		{"no total", "Total: 476.00\n", "", "malformed_invoice", "Total"},
		{"two totals", "Total:", "Total: 1\nTotal:", "malformed_invoice", "twice"},
		{"a rate in words", "Tax 19%", "Tax nineteen", "malformed_invoice", "line 10: a tax line"},
		{"a thousands separator", "400.00", "4,00.00", "malformed_invoice", "no decimal number"},
		{"prose", "Currency: EUR", "Currency: EUR\nplease pay soon", "malformed_invoice", "line 4"},
		{"an unknown field", "Currency: EUR", "Currency: EUR\nDiscount code: 7", "malformed_invoice", "not known"},
		{"a line item with three cells", "Work | 1.5 | 84.00 | 126.00", "Work | 1.5 | 126.00", "malformed_invoice", "line 6"},
		{"a part of a cent", "149.90", "149.901", "malformed_invoice", "digits after the point"},
		{"no line items", goodInvoice[strings.Index(goodInvoice, "Sensor"):strings.Index(goodInvoice, "Subtotal")], "", "malformed_invoice", "no line item"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(goodInvoice, tt.old) {
				t.Fatalf("the invoice has no %q", tt.old)
			}
			text := strings.Replace(goodInvoice, tt.old, tt.new, 1)
			_, err := extractTotals(t.Context(), "k", bill{Invoice: "inv-4412", Text: text})
			if o := outcomeOf(err); o.class != tt.class || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("extractTotals = %v, want class %s with %q", err, tt.class, tt.says)
			}
		})
	}
}

func FuzzExtractTotals(f *testing.F) {
	f.Add(goodInvoice)
	f.Add("a|b|c|d")
	f.Add("Tax %: -")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := extractTotals(t.Context(), "k", bill{Invoice: "inv-4412", Text: text})
		if err != nil {
			if outcomeOf(err).class == "" {
				t.Fatalf("extractTotals(%q) = %v, which would be tried again", text, err)
			}
			return
		}
		var sum cents
		for _, l := range got.Lines {
			sum += l.Amount
		}
		if sum != got.Subtotal || got.Subtotal+got.Tax != got.Total {
			t.Fatalf("extractTotals(%q) = %+v, which does not add up", text, got)
		}
	})
}
