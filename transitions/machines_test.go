package transitions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/statemachine"
)

// Every sample can be run offline, to its end.
func TestSamples(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{"report", "invoice", "kitchensink"} {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			input, ok := Sample(machine)
			if !ok {
				t.Fatalf("there is no sample for %s", machine)
			}
			r := newFleet(t, Config{FileDir: t.TempDir()}).run(machine, "run-1", string(input))
			if r.Status != statemachine.StatusSucceeded {
				t.Errorf("the run is %s in state %s: %+v", r.Status, r.To, r.Cause)
			}
		})
	}
	if _, ok := Sample("nonesuch"); ok {
		t.Error("there is a sample for a machine that does not exist")
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out strings.Builder
	f := newFleet(t, Config{FileDir: dir, Out: &out})
	r := f.run("report", "run-1", `{"source":{"text":"Pumps move water. The weather was nice. Old pumps move less water than new pumps do."},"to":"customer-17@example.com","sentences":1}`)
	want := reportData{
		To: "customer-17@example.com", Sentences: 1,
		Document: &document{Source: "input", Words: 16},
		Summary:  &summary{Text: "Old pumps move less water than new pumps do.", Sentences: 3},
		Receipt:  &receipt{ID: "mail-000001", To: "customer-17@example.com"},
	}
	var got reportData
	if err := json.Unmarshal(r.Data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the data differs (-want +got):\n%s", diff)
	}
	if r.Status != statemachine.StatusSucceeded || r.To != "done" || r.Index["to"] != "customer-17@example.com" {
		t.Errorf("the run is %s in %s, index %v", r.Status, r.To, r.Index)
	}
	if want := "e-mail to customer-17@example.com: Summary of input\n    Old pumps move less water than new pumps do.\n"; out.String() != want {
		t.Errorf("shown was %q, want %q", out.String(), want)
	}

	r = f.run("report", "run-2", `{"source":{"file":"none.txt"},"to":"customer-17@example.com"}`)
	if r.Status != statemachine.StatusFailed || r.Cause == nil || r.Cause.Class != "unreadable_document" || !strings.Contains(r.Cause.Message, "none.txt") {
		t.Errorf("without a file the run is %s: %+v", r.Status, r.Cause)
	}
}

// Two runs about one invoice post it once and send one e-mail.
func TestInvoiceOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFleet(t, Config{FileDir: dir})
	input, _ := Sample("invoice")
	for _, run := range []string{"run-1", "run-2"} {
		r := f.run("invoice", run, string(input))
		var got invoiceData
		if err := json.Unmarshal(r.Data, &got); err != nil {
			t.Fatal(err)
		}
		if r.Status != statemachine.StatusSucceeded || got.Entry != "entry-000001" || got.Receipt == nil || got.Totals.Total != 54835 {
			t.Errorf("%s is %s: %+v", run, r.Status, got)
		}
		if want := map[string]string{"invoice": "inv-4412", "customer": "customer-17"}; !cmp.Equal(want, r.Index) {
			t.Errorf("%s is found by %v, want %v", run, r.Index, want)
		}
	}
	keys := 0
	for _, k := range f.performed {
		if k == "ledger:inv-4412" || k == "email:inv-4412" {
			keys++
		}
	}
	if keys != 2 {
		t.Errorf("performed was %v, want each business key once", f.performed)
	}
	for _, name := range []string{ledgerFile, outboxFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Count(string(b), "\n") != 1 {
			t.Errorf("%s holds %q, %v, want one line", name, b, err)
		}
	}
}

func TestInvoiceRejected(t *testing.T) {
	t.Parallel()
	input, _ := Sample("invoice")
	wrong := strings.Replace(string(input), "548.35", "584.35", 1)
	r := newFleet(t, Config{FileDir: t.TempDir()}).run("invoice", "run-1", wrong)
	if r.Status != statemachine.StatusFailed || r.Cause == nil || r.Cause.Class != "invoice_rejected" || !strings.Contains(r.Cause.Message, "548.35") {
		t.Errorf("the run is %s: %+v", r.Status, r.Cause)
	}
}

func TestKitchensink(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, input string
		status      statemachine.Status
		results     int
		performed   int
		cause       string
	}{
		{"nothing", `{"steps":[]}`, statemachine.StatusSucceeded, 0, 0, ""},
		{"one", `{"steps":[{"do":"noop"}]}`, statemachine.StatusSucceeded, 1, 1, ""},
		{"repeats have keys of their own", `{"steps":[{"do":"noop","repeat":3},{"do":"log"}]}`, statemachine.StatusSucceeded, 4, 4, ""},
		{"a key is verbatim, so performed once", `{"steps":[{"do":"noop","key":"k","repeat":3},{"do":"noop","key":"k"}]}`, statemachine.StatusSucceeded, 4, 1, ""},
		{"it fails where the script says", `{"steps":[{"do":"noop"},{"fail":"as scripted"},{"do":"noop"}]}`, statemachine.StatusFailed, 1, 1, "as scripted"},
		{"at once", `{"steps":[{"fail":"at once"}]}`, statemachine.StatusFailed, 0, 0, "at once"},
		{"a terminal error parks it", `{"steps":[{"do":"file.append","input":{"file":"../x"}}]}`, statemachine.StatusParked, 0, 1, "not below"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, Config{FileDir: t.TempDir()})
			r := f.run("kitchensink", "run-1", tt.input)
			if r.Status != tt.status || r.Logs["results"].Count != tt.results || len(f.performed) != tt.performed {
				t.Errorf("the run is %s with %d results and %d performed, want %s, %d, %d",
					r.Status, r.Logs["results"].Count, len(f.performed), tt.status, tt.results, tt.performed)
			}
			if tt.cause != "" && (r.Cause == nil || !strings.Contains(r.Cause.Message, tt.cause)) {
				t.Errorf("the cause is %+v, want %q", r.Cause, tt.cause)
			}
		})
	}
}

// The results are in the log, in the order of the script.
func TestKitchensinkResults(t *testing.T) {
	t.Parallel()
	f := newFleet(t, Config{})
	r, err := f.start("kitchensink", "run-1", `{"steps":[{"do":"noop","input":{"n":1},"repeat":2},{"do":"noop"},{"do":"noop","input":3,"place":"queued"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for r.Status == statemachine.StatusRunning {
		if r, err = f.apply("kitchensink", "run-1", r, f.perform(r.Pending[0])); err != nil {
			t.Fatal(err)
		}
		for _, item := range r.Adds["results"] {
			results = append(results, string(item))
		}
	}
	if want := []string{`{"n":1}`, `{"n":1}`, `{}`, `3`}; !cmp.Equal(want, results) {
		t.Errorf("the results are %v, want %v", results, want)
	}
	if want := []statemachine.Place{statemachine.Inline, statemachine.Inline, statemachine.Inline, statemachine.Queued}; !cmp.Equal(want, f.place) {
		t.Errorf("the places are %v, want %v", f.place, want)
	}
}

// The size of a record does not depend on how many steps came before.
func TestKitchensinkStaysSmall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, Config{})
	r, err := f.start("kitchensink", "run-1", `{"steps":[{"do":"noop","repeat":2000}]}`)
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for r.Status == statemachine.StatusRunning {
		if r, err = f.apply("kitchensink", "run-1", r, f.perform(r.Pending[0])); err != nil {
			t.Fatal(err)
		}
		if r.Rev == 10 {
			first = len(r.Bytes)
		}
		if r.Rev > 10 && len(r.Bytes) > first+50 { // longer numbers
			t.Fatalf("record %d has %d bytes, record 10 had %d", r.Rev, len(r.Bytes), first)
		}
	}
	if r.Rev != 2_001 {
		t.Errorf("the run ended with record %d, want 2,001", r.Rev)
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	tests := []struct{ machine, input, says string }{
		{"report", `{}`, "exactly one of text, url and file"},
		{"report", `{"source":{"text":"a"},"to":"nobody"}`, `to: "nobody" is no e-mail address`},
		{"report", `{"source":{"text":"a","url":"b"},"to":"a@b"}`, "exactly one"},
		{"report", `{"source":{"text":"a"},"to":"a@b","summary":{}}`, "results"},
		{"report", `{"source":{"text":"a"},"to":"a@b","colour":"red"}`, "colour"},
		{"report", `{"source":{"text":"a"},"to":"a@b","sentences":"x"}`, "sentences"},
		{"invoice", `{"to":"a@b","document":{"text":"a"}}`, "invoice: a number"},
		{"invoice", `{"invoice":"a b","to":"a@b","document":{"text":"a"}}`, "without spaces"},
		{"invoice", `{"invoice":"1","to":"a@b","document":{"text":"a"},"entry":"x"}`, "results"},
		{"kitchensink", `{"steps":[{"do":"rm.rf"}]}`, `steps[0]: effect "rm.rf" is not known here`},
		{"kitchensink", `{"steps":[{"do":"noop"},{}]}`, "steps[1]: a step has exactly one of do and fail"},
		{"kitchensink", `{"steps":[{"do":"noop","fail":"x"}]}`, "exactly one"},
		{"kitchensink", `{"steps":[{"fail":"x","repeat":2}]}`, "fail stands alone"},
		{"kitchensink", `{"steps":[{"do":"noop","repeat":-1}]}`, "repeat is -1"},
		{"kitchensink", `{"steps":[{"do":"noop","repeat":600000},{"do":"noop","repeat":600000}]}`, "more than 1000000 effects"},
		{"kitchensink", `{"steps":[{"do":"noop","place":"here"}]}`, `place is "here"`},
		{"kitchensink", `{"steps":[],"at":1}`, "cannot be given"},
		{"kitchensink", `{"steps":[],"results":[1]}`, "cannot be given"},
		{"kitchensink", `{"steps":[{"do":"noop","key":"` + strings.Repeat("k", 257) + `"}]}`, "more than 256 bytes"},
		{"kitchensink", `[]`, "array"},
	}
	f := newFleet(t, Config{})
	for _, tt := range tests {
		if _, err := f.start(tt.machine, "run-1", tt.input); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("start of %s with %s = %v, want a refusal with %q", tt.machine, tt.input, err, tt.says)
		}
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	catalog, err := Catalog(Config{Bound: map[string]Bound{
		"crm.update": {URL: "http://crm.internal/update"},
		"email.send": {URL: "https://mail.internal/send", Method: "PUT"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"crm.update", "doc.fetch", "email.send", "file.append", "http.post", "invoice.totals", "ledger.post", "log", "noop", "text.summarise"}
	if diff := cmp.Diff(want, catalog.Effects()); diff != "" {
		t.Errorf("the effects differ (-want +got):\n%s", diff)
	}
}

func TestCatalogReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := Catalog(Config{
		AllowHosts:  []string{"a b"},
		HTTPTimeout: -1,
		Bound: map[string]Bound{
			"Bad Name": {URL: "http://x"},
			"a.b":      {URL: "ftp://x"},
			"a.c":      {URL: "http://x", Method: "GET"},
			"a.d":      {URL: "http://x", Timeout: -1},
		},
	})
	if err == nil {
		t.Fatal("Catalog took it")
	}
	for _, says := range []string{`"a b"`, "HTTP timeout", `"Bad Name"`, "ftp://x", `"GET"`, "a.d: timeout"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("Catalog = %v, want a line with %q", err, says)
		}
	}
}
