package transitions

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/statemachine"
)

// run drives a run with the shipped handlers to where it comes to rest.
func run(t *testing.T, c Config, machine, input string) *pawltest.Run {
	t.Helper()
	return pawltest.Start(t, shipped(t, c), json.RawMessage(input), pawltest.Machine(machine, 0))
}

func shipped(t *testing.T, c Config) *statemachine.Catalog {
	t.Helper()
	catalog, err := Catalog(c)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// Every sample can be run offline, to its end.
func TestSamples(t *testing.T) {
	t.Parallel()
	for _, d := range shipped(t, Config{}).Definitions() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			input, ok := Sample(d.Name)
			if !ok {
				t.Fatalf("there is no sample for %s", d.Name)
			}
			r := run(t, Config{FileDir: t.TempDir()}, d.Name, string(input))
			if d.Name == "onboarding" { // a person decides
				if err := r.Decide(usualCoordinator, statemachine.Approved); err != nil {
					t.Fatal(err)
				}
			}
			r.Advance(time.Minute) // what a sample waits for is over soon
			if r.Status() != statemachine.StatusSucceeded {
				t.Errorf("the run is %s in state %s: %+v", r.Status(), r.State(), r.Cause())
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
	r := run(t, Config{FileDir: dir, Out: &out}, "report", `{"source":{"text":"Pumps move water. The weather was nice. Old pumps move less water than new pumps do."},"to":"customer-17@example.com","sentences":1}`)
	want := reportData{
		To: "customer-17@example.com", Sentences: 1,
		Document: &document{Source: "input", Words: 16},
		Summary:  &summary{Text: "Old pumps move less water than new pumps do.", Sentences: 3},
		Receipt:  &receipt{ID: "mail-000001", To: "customer-17@example.com"},
	}
	var got reportData
	r.Data(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the data differs (-want +got):\n%s", diff)
	}
	if want := []string{"fetch", "summarise", "email", "done"}; !cmp.Equal(want, r.Path()) || r.Index()["to"] != "customer-17@example.com" {
		t.Errorf("the path is %v, want %v; index %v", r.Path(), want, r.Index())
	}
	if want := "e-mail to customer-17@example.com: Summary of input\n    Old pumps move less water than new pumps do.\n"; out.String() != want {
		t.Errorf("shown was %q, want %q", out.String(), want)
	}
}

func TestReportThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := run(t, Config{FileDir: t.TempDir()}, "report", `{"source":{"file":"none.txt"},"to":"customer-17@example.com"}`)
	if c := r.Cause(); r.Status() != statemachine.StatusFailed || c.Class != "unreadable_document" || !strings.Contains(c.Message, "none.txt") {
		t.Errorf("the run is %s: %+v", r.Status(), c)
	}
}

// A document of 64 KB, the most there is, is carried through all records.
func TestReportOfALargeDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large.txt"), []byte(strings.Repeat("Pumps move water. ", maxDocument/18)), 0o644); err != nil {
		t.Fatal(err)
	}
	r := run(t, Config{FileDir: dir}, "report", `{"source":{"file":"large.txt"},"to":"customer-17@example.com"}`)
	if r.Status() != statemachine.StatusSucceeded {
		t.Errorf("the run is %s in state %s: %+v", r.Status(), r.State(), r.Cause())
	}
}

// A trip that cannot be booked as a whole is not booked at all: what was booked
// is cancelled, the last first, under keys that the agency honours.
func TestTrip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, input string
		status      statemachine.Status
		path        []string
		message     string
		cancelled   []string
	}{
		{"booked", `{"traveller":"customer-17","to":"Gdynia","nights":3,"budget":"660.00"}`, statemachine.StatusSucceeded,
			[]string{"flight", "hotel", "car", "booked"}, "", nil},
		{"too dear", `{"traveller":"customer-17","to":"Gdynia","nights":3,"budget":"659.99"}`, statemachine.StatusFailed,
			[]string{"flight", "hotel", "car", "too_dear"}, "the trip costs 660.00, and the budget is 659.99", []string{"booking-000003", "booking-000002", "booking-000001"}},
		{"no car", `{"traveller":"customer-17","to":"Gdynia","nights":15,"budget":"9999.00"}`, statemachine.StatusFailed,
			[]string{"flight", "hotel", "car", "not_to_be_had"}, "there is no car in Gdynia for 15 nights", []string{"booking-000002", "booking-000001"}},
		{"no hotel", `{"traveller":"customer-17","to":"Gdynia","nights":29,"budget":"9999.00"}`, statemachine.StatusFailed,
			[]string{"flight", "hotel", "not_to_be_had"}, "there is no hotel in Gdynia for 29 nights", []string{"booking-000001"}},
	} {
		dir := t.TempDir()
		r := run(t, Config{FileDir: dir}, "trip", tt.input)
		var got tripData
		r.Data(&got)
		if r.Status() != tt.status || !cmp.Equal(r.Path(), tt.path) || r.Cause().Message != tt.message || !cmp.Equal(got.Cancelled, tt.cancelled) {
			t.Errorf("%s: the run is %s by %v (%+v), cancelled were %v; want %s by %v (%s), %v", tt.name, r.Status(), r.Path(), r.Cause(), got.Cancelled, tt.status, tt.path, tt.message, tt.cancelled)
		}
	}
	for input, want := range map[string]string{
		`{"to":"Gdynia","nights":0,"budget":"0"}`:                              "traveller: 1 to 256 bytes are needed",
		`{"traveller":"a","to":"b","nights":366,"budget":"1"}`:                 "nights: 1 to 365 are possible, not 366",
		`{"traveller":"a","to":"b","nights":1,"budget":"1","cancelled":["x"]}`: "are results: they cannot be given",
	} {
		err := pawltest.Refused(t, shipped(t, Config{}), json.RawMessage(input), pawltest.Machine("trip", 0))
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", input, err, want)
		}
	}
}

// Two runs about one invoice post it once and send one e-mail: their keys name
// the invoice, and the providers honour them.
func TestInvoiceOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input, _ := Sample("invoice")
	for range 2 {
		r := run(t, Config{FileDir: dir}, "invoice", string(input))
		var got invoiceData
		r.Data(&got)
		if r.Status() != statemachine.StatusSucceeded || got.Entry != "entry-000001" || got.Receipt == nil || got.Totals.Total != 54835 {
			t.Errorf("the run is %s: %+v", r.Status(), got)
		}
		if want := map[string]string{"invoice": "inv-4412", "customer": "customer-17"}; !cmp.Equal(want, r.Index()) {
			t.Errorf("it is found by %v, want %v", r.Index(), want)
		}
		for effect, want := range map[string]string{"ledger.post": "ledger:inv-4412", "email.send": "email:inv-4412"} {
			if calls := r.Calls(effect); len(calls) != 1 || calls[0].Key != want {
				t.Errorf("%s was called %+v, want the key %s", effect, calls, want)
			}
		}
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
	r := run(t, Config{FileDir: t.TempDir()}, "invoice", wrong)
	if c := r.Cause(); r.Status() != statemachine.StatusFailed || c.Class != "invoice_rejected" || !strings.Contains(c.Message, "548.35") {
		t.Errorf("the run is %s: %+v", r.Status(), c)
	}
	if calls := r.Calls("ledger.post"); len(calls) != 0 {
		t.Errorf("it was posted: %+v", calls)
	}
}

func TestKitchensink(t *testing.T) {
	const notBelow = `{"error":{"class":"invalid_input","message":"file \"../x\" is not below the folder for files"}}`
	t.Parallel()
	tests := []struct {
		name, input string
		status      statemachine.Status
		results     []string
		performed   int // of noop
		cause       string
	}{
		{"nothing", `{"steps":[]}`, statemachine.StatusSucceeded, nil, 0, ""},
		{"one", `{"steps":[{"do":"noop"}]}`, statemachine.StatusSucceeded, []string{"{}"}, 1, ""},
		{"repeats have keys of their own", `{"steps":[{"do":"noop","input":1,"repeat":3},{"do":"log"}]}`, statemachine.StatusSucceeded, []string{"1", "1", "1", "{}"}, 3, ""},
		{"a key is verbatim, so performed once", `{"steps":[{"do":"noop","input":2,"key":"k","repeat":3}]}`, statemachine.StatusSucceeded, []string{"2", "2", "2"}, 1, ""},
		{"it fails where the script says", `{"steps":[{"do":"noop"},{"fail":"as scripted"},{"do":"noop"}]}`, statemachine.StatusFailed, []string{"{}"}, 1, "as scripted"},
		{"at once", `{"steps":[{"fail":"at once"}]}`, statemachine.StatusFailed, nil, 0, "at once"},
		{"at once, in order, and what is given up is a result", `{"steps":[{"fan":[{"do":"noop","input":{"n":"{item}"},"key":"k{item}"},{"do":"file.append","input":{"file":"../x"}}],"repeat":2,"limit":3},{"do":"noop"}]}`,
			statemachine.StatusSucceeded, []string{`{"n":"1"}`, notBelow, `{"n":"3"}`, notBelow, "{}"}, 3, ""},
		{"a terminal error parks it", `{"steps":[{"do":"file.append","input":{"file":"../x"}}]}`, statemachine.StatusParked, nil, 0, "not below"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, Config{FileDir: t.TempDir()}, "kitchensink", tt.input)
			var results []string
			for _, v := range r.Log("results") {
				results = append(results, string(v))
			}
			if r.Status() != tt.status || !cmp.Equal(results, tt.results) || len(r.Calls("noop")) != tt.performed {
				t.Errorf("the run is %s with results %v and %d performed, want %s, %v, %d",
					r.Status(), results, len(r.Calls("noop")), tt.status, tt.results, tt.performed)
			}
			if !strings.Contains(r.Cause().Message, tt.cause) {
				t.Errorf("the cause is %+v, want %q", r.Cause(), tt.cause)
			}
		})
	}
}

// TestKitchensinkAsks: people are asked and told, their decision is a result,
// and one who rejects ends the run.
func TestKitchensinkAsks(t *testing.T) {
	t.Parallel()
	script := `{"steps":[{"approve":{"by":["anna","bert"],"quorum":2,"show":{"amount":7},"remind":"1h"},"timeout":"3h"},{"do":"noop"}]}`
	r := run(t, Config{}, "kitchensink", script)
	if calls := r.Calls("log"); r.State() != "ask" || len(calls) != 1 || !strings.Contains(string(calls[0].Input), `"kind":"ask"`) || !strings.Contains(string(calls[0].Input), `"show":{"amount":7}`) {
		t.Fatalf("in %s, told %+v", r.State(), calls)
	}
	r.Advance(time.Hour)
	if calls := r.Calls("log"); len(calls) != 2 || !strings.Contains(string(calls[1].Input), `"kind":"remind"`) {
		t.Errorf("told %+v", calls)
	}
	for _, who := range []string{"anna", "bert"} {
		if err := r.Decide(who, statemachine.Approved); err != nil {
			t.Fatal(err)
		}
	}
	if log := r.Log("results"); r.Status() != statemachine.StatusSucceeded || len(log) != 2 || !strings.Contains(string(log[0]), `"verdict":"approve","answers":[{"by":"anna"`) {
		t.Errorf("%s with %s", r.Status(), log)
	}
	r = run(t, Config{}, "kitchensink", script)
	if err := r.Decide("carl", statemachine.Approved); err == nil || !strings.Contains(err.Error(), "not_allowed") {
		t.Errorf("carl decides: %v", err)
	}
	if err := r.Decide("anna", statemachine.Rejected); err != nil || r.Cause().Class != "rejected" {
		t.Errorf("%v, %+v", err, r.Cause())
	}
	r = run(t, Config{}, "kitchensink", script)
	if r.Advance(3 * time.Hour); r.Cause().Class != "approval_timeout" {
		t.Errorf("%+v", r.Cause())
	}
	err := pawltest.Refused(t, shipped(t, Config{}), json.RawMessage(script), pawltest.Machine("kitchensink", 2))
	if err == nil || !strings.Contains(err.Error(), "version 2 of the machine asks nobody") {
		t.Errorf("version 2: %v", err)
	}
}

// A step can ask to be performed by the fleet, where others are not.
func TestKitchensinkQueues(t *testing.T) {
	t.Parallel()
	d, _ := shipped(t, Config{}).Definition("kitchensink", 0)
	for place, want := range map[string]statemachine.Place{"": statemachine.Inline, "queued": statemachine.Queued} {
		fold := d.Begin("run-1", nil, statemachine.Env{Place: func(*statemachine.Pending) statemachine.Place { return statemachine.Inline }})
		input := json.RawMessage(`{"steps":[{"do":"noop","place":"` + place + `"}]}`)
		if _, err := fold.Apply(statemachine.Event{Kind: statemachine.EventStart, Body: input}); err != nil {
			t.Fatal(err)
		}
		r, err := fold.Seal()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Pending[0].Place; got != want {
			t.Errorf("with place %q the effect is %s, want %s", place, got, want)
		}
	}
}

// The size of a record does not depend on how many steps came before.
func TestKitchensinkStaysSmall(t *testing.T) {
	t.Parallel()
	const steps = 2000
	records := run(t, Config{}, "kitchensink", fmt.Sprintf(`{"steps":[{"do":"noop","repeat":%d}]}`, steps)).Records()
	if len(records) != steps+1 {
		t.Errorf("the run has %d records, want %d", len(records), steps+1)
	}
	early, late := len(records[steps/2].Bytes), len(records[steps-1].Bytes)
	if late > early+20 { // a number may have a digit more
		t.Errorf("a late record has %d bytes, one of the middle %d", late, early)
	}
}

// A script waits for times and signals, and fails where nobody answers.
func TestSinkWaits(t *testing.T) {
	t.Parallel()
	r := run(t, Config{}, "kitchensink", `{"steps":[{"sleep":"72h"},{"do":"noop"},{"await":"word","timeout":"1h"},{"await":"word"},{"sleep":"1ns"}]}`)
	if r.State() != "await" || r.Now().Sub(r.Records()[0].At) != 72*time.Hour {
		t.Fatalf("in %s after %s", r.State(), r.Now().Sub(r.Records()[0].At))
	}
	r.Signal("s1", "word", "first")
	r.Advance(1000 * time.Hour)
	r.Signal("s2", "word", "second")
	if r.Status() != statemachine.StatusSucceeded || len(r.Records()[len(r.Records())-1].Logs) != 1 || r.Records()[len(r.Records())-1].Logs["results"].Count != 3 {
		t.Errorf("%s in %s, logs %+v", r.Status(), r.State(), r.Records()[len(r.Records())-1].Logs)
	}
	r = run(t, Config{}, "kitchensink", `{"steps":[{"await":"word","timeout":"1h"}]}`)
	if r.Advance(time.Hour); r.Status() != statemachine.StatusFailed || r.Cause().Class != "await_timeout" {
		t.Errorf("%s: %+v", r.Status(), r.Cause())
	}
}

// A script has others run.
func TestSinkHasChildren(t *testing.T) {
	t.Parallel()
	r := run(t, Config{}, "kitchensink", `{"steps":[
		{"child":{"machine":"kitchensink","input":{"steps":[{"do":"noop"},{"await":"word"}]}}},
		{"child":{"machine":"kitchensink","id":"k2","input":{"steps":[{"do":"noop"}]}}}]}`)
	if r.State() != "child" || r.Child().State() != "await" {
		t.Fatalf("the run is in %s, its child in %s", r.State(), r.Child().State())
	}
	r.Child().Signal("s", "word", "x")
	if r.Status() != statemachine.StatusSucceeded || len(r.Log("results")) != 2 || r.Children()["k2"] == nil {
		t.Errorf("the run is %s with %s", r.Status(), r.Log("results"))
	}
	r = run(t, Config{}, "kitchensink", `{"steps":[{"child":{"machine":"kitchensink","input":{"steps":[{"fail":"no"}]}}}]}`)
	if r.Status() != statemachine.StatusParked || r.Cause().Class != "scripted_failure" {
		t.Errorf("the run is %s: %+v", r.Status(), r.Cause())
	}
}

// A script catches what is given up, as a result, and undoes what it did when it
// fails, the last first.
func TestSinkCatchesAndUndoes(t *testing.T) {
	t.Parallel()
	const refused = `{"do":"http.post","input":{"url":"http://elsewhere.example/"},"catch":true`
	r := run(t, Config{}, "kitchensink", `{"steps":[
		{"do":"noop","input":"first","repeat":2,"undo":{"do":"log","input":"back 1"}},
		`+refused+`,"undo":{"do":"log","input":"never"}},
		`+refused+`},
		{"do":"noop","catch":true,"undo":{"do":"log","input":"back 2"}},
		{"fail":"on purpose"}]}`)
	if results := r.Log("results"); r.Status() != statemachine.StatusFailed || len(results) != 5 || !strings.HasPrefix(string(results[2]), `{"error":"host_not_allowed","message":"host elsewhere.example`) {
		t.Fatalf("the run is %s: %+v, with %s", r.Status(), r.Cause(), results)
	}
	var undone []string
	for _, rec := range r.Records() {
		for _, p := range rec.Pending {
			if p.Undoes != "" && p.Rev == rec.Rev {
				undone = append(undone, string(p.Input))
			}
		}
	}
	if want := []string{`"back 2"`, `"back 1"`, `"back 1"`}; !slices.Equal(undone, want) {
		t.Errorf("undone: %s, want %s", undone, want)
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
		{"kitchensink", `{"steps":[{"do":"noop"},{}]}`, "steps[1]: a step has exactly one of do, sleep, await, child, fan, approve, continue_as_new and fail"},
		{"kitchensink", `{"steps":[{"do":"noop","fail":"x"}]}`, "exactly one"},
		{"kitchensink", `{"steps":[{"fail":"x","repeat":2}]}`, "input, key, flow, repeat, place, catch and undo are of a step with do"},
		{"kitchensink", `{"steps":[{"do":"noop","undo":{"do":"rm.rf"}}]}`, `undo: effect "rm.rf" is not known here`},
		{"kitchensink", `{"steps":[{"sleep":"1s","await":"word"}]}`, "exactly one"},
		{"kitchensink", `{"steps":[{"child":{"machine":"No name"}}]}`, `child.machine is "No name"`},
		{"kitchensink", `{"steps":[{"sleep":"1s","timeout":"1s"}]}`, "timeout is of a step with await or approve"},
		{"kitchensink", `{"steps":[{"approve":{}}]}`, "steps[0]: approve names nobody in by"},
		{"kitchensink", `{"steps":[{"approve":{"by":["a b"]}}]}`, `approver "a b" is not one token of a subject`},
		{"kitchensink", `{"steps":[{"approve":{"by":["a"],"tell":"rm"}}]}`, `effect "rm" is not known here`},
		{"kitchensink", `{"steps":[{"sleep":"-1s"}]}`, "sleep is -1s, not 0 to 87600h0m0s"},
		{"kitchensink", `{"steps":[{"await":"word","timeout":"87601h"}]}`, "timeout is 87601h0m0s"},
		{"kitchensink", `{"steps":[{"do":"noop","repeat":-1}]}`, "repeat is -1"},
		{"kitchensink", `{"steps":[{"do":"noop","repeat":600000},{"do":"noop","repeat":600000}]}`, "more than 1000000 effects"},
		{"kitchensink", `{"steps":[{"do":"noop","place":"here"}]}`, `place is "here"`},
		{"kitchensink", `{"steps":[{"fan":[]}]}`, "steps[0]: fan has no effects"},
		{"kitchensink", `{"steps":[{"fan":[{"do":"noop"}],"limit":201}]}`, "limit is 201, not 1 to 200"},
		{"kitchensink", `{"steps":[{"fan":[{"do":"noop"}],"repeat":100001}]}`, "at most 100000"},
		{"kitchensink", `{"steps":[{"fan":[{"sleep":"1s"}]}]}`, "steps[0]: fan[0]: it has do, and no repeat, catch or undo"},
		{"kitchensink", `{"steps":[{"fan":[{"do":"rm.rf"}]}]}`, `fan[0]: effect "rm.rf" is not known here`},
		{"kitchensink", `{"steps":[{"do":"noop","limit":2}]}`, "limit is of a step with fan"},
		{"kitchensink", `{"steps":[],"at":1}`, "cannot be given"},
		{"kitchensink", `{"steps":[],"results":[1]}`, "cannot be given"},
		{"kitchensink", `{"steps":[{"do":"noop","key":"` + strings.Repeat("k", 257) + `"}]}`, "more than 256 bytes"},
		{"kitchensink", `[]`, "array"},
		{"onboarding", `{"site":"x","to":"a@b"}`, "site: a number is needed"},
		{"onboarding", `{"site":"1","to":"a@b","within":"-1h"}`, "within: a time such as 72h"},
		{"onboarding", `{"site":"1","to":"a@b","within":"87601h"}`, "within: a time such as 72h"},
		{"onboarding", `{"site":"1","to":"a@b","edc":"x"}`, "results"},
		{"renewal", `{"contract":"a b","version":1,"customer":"c","to":"a@b","currency":"EUR","price":"1.00"}`, "contract: 1 to"},
		{"renewal", `{"contract":"a","version":0,"customer":"c","to":"a@b","currency":"EUR","price":"1.00"}`, "version: 1 or more"},
		{"renewal", `{"contract":"a","version":1,"customer":"c","to":"a@b","currency":"EUR","price":"0.00"}`, "price: more than 0.00"},
		{"renewal", `{"contract":"a","version":1,"customer":"c","to":"a@b","currency":"EUR","price":"1.00","notice":"soon"}`, "notice: a time such as 720h"},
	}
	catalog := shipped(t, Config{})
	for _, tt := range tests {
		err := pawltest.Refused(t, catalog, json.RawMessage(tt.input), pawltest.Machine(tt.machine, 0))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
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
	want := []string{"crm.update", "doc.fetch", "edc.provision", "email.send", "file.append", "http.post", "invoice.totals", "irb.request", "kickoff.book", "ledger.post", "log", "noop",
		"site.accounts", "site.close", "site.verify", "text.summarise", "travel.book", "travel.cancel"}
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

// A script rolls where it says so: the run is the same, in another epoch.
func TestKitchensinkRolls(t *testing.T) {
	t.Parallel()
	r := run(t, Config{}, "kitchensink", `{"steps":[{"do":"noop","repeat":2},{"continue_as_new":true},{"do":"noop"},{"continue_as_new":true},{"continue_as_new":true}]}`)
	records := r.Records()
	var epochs []int
	for _, rec := range records {
		epochs = append(epochs, rec.Epoch)
	}
	last := records[len(records)-1]
	if !slices.Equal(epochs, []int{0, 0, 1, 2}) || last.Status != statemachine.StatusSucceeded || last.Logs["results"].Count != 3 {
		t.Errorf("epochs %v, %s with %+v", epochs, last.Status, last.Logs)
	}
	for script, want := range map[string]string{
		`{"steps":[{"continue_as_new":true,"do":"noop"}]}`: "a step has exactly one of",
		`{"steps":[{"continue_as_new":1}]}`:                "number given where bool is expected",
	} {
		if err := pawltest.Refused(t, shipped(t, Config{}), json.RawMessage(script), pawltest.Machine("kitchensink", 0)); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}
