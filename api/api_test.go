package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

func TestRun(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 5, 2)
	got, err := w.answers().Run(t.Context(), "run-1", AllItems)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pending) != 1 || got.Pending[0].Effect != "step" || got.Pending[0].Key != got.Pending[0].ID || string(got.Pending[0].Input) != "2" {
		t.Errorf("pending is %+v", got.Pending)
	}
	got.Pending = nil
	want := &Run{
		ID: "run-1", Machine: "counter", Version: 1, State: "count", Status: statemachine.StatusRunning, Revision: 3,
		Started: began.Add(1e9), Updated: began.Add(3e9), Build: "b1", By: "w1", Index: map[string]string{"n": "5"},
		Data:   json.RawMessage(`{"n":5,"done":2,"results":{"$log":"results","to":2},"other":{"$log":"other","to":0}}`),
		Logs:   map[string]Items{"results": {json.RawMessage(`"result 0"`), json.RawMessage(`"result 1"`)}},
		Counts: map[string]int{"results": 2},
		Visits: map[string]int{"count": 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Run differs (-want +got):\n%s", diff)
	}
}

func TestRunNotFound(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	if _, err := w.answers().Run(t.Context(), "none", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("Run = %v, want ErrNotFound", err)
	}
	for _, err := range w.answers().History(t.Context(), "none") {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("History = %v, want ErrNotFound", err)
		}
	}
	w.broken = errors.New("no connection")
	if _, err := w.answers().Run(t.Context(), "none", 0); !errors.Is(err, w.broken) {
		t.Errorf("Run = %v, want %v", err, w.broken)
	}
}

// The items of a log are found wherever they lie: in chunks, in records, in
// both; all of them or the last ones.
func TestRunLogs(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4, 5, 8, 9, 23, 40} {
		w := newTwin(t)
		w.drive(counting("counter"), "run-1", n, n)
		for _, last := range []int{AllItems, 1, 2, 5, n, n + 1} {
			run, err := w.answers().Run(t.Context(), "run-1", last)
			if err != nil {
				t.Fatalf("%d items, the last %d: %v", n, last, err)
			}
			from := 0
			if last >= 0 {
				from = max(0, n-last)
			}
			var want Items
			for i := from; i < n; i++ {
				want = append(want, json.RawMessage(fmt.Sprintf(`"result %d"`, i)))
			}
			if diff := cmp.Diff(want, run.Logs["results"]); diff != "" {
				t.Errorf("%d items, the last %d: differs (-want +got):\n%s", n, last, diff)
			}
			if n >= 3 && len(run.Logs["other"]) != 1 {
				t.Errorf("%d items: the other log has %s", n, run.Logs["other"])
			}
		}
		if run, err := w.answers().Run(t.Context(), "run-1", 0); err != nil || run.Logs != nil {
			t.Errorf("without items: %v, %v", run.Logs, err)
		}
	}
}

func TestRunLogsThatAreDamaged(t *testing.T) {
	t.Parallel()
	damage := map[string]func(w *twin){
		"no blobs":       func(w *twin) { clear(w.blobs) },
		"no records":     func(w *twin) { w.runs["run-1"] = w.runs["run-1"][len(w.runs["run-1"])-1:] },
		"chunks of JSON": func(w *twin) { overwrite(w.blobs, `[]`) },
		"empty chunks":   func(w *twin) { overwrite(w.blobs, `{"first":0,"items":[]}`) },
		"wrong chunks":   func(w *twin) { overwrite(w.blobs, `{"first":1,"items":[1]}`) },
	}
	for name, spoil := range damage {
		w := newTwin(t)
		w.drive(counting("counter"), "run-1", 11, 10)
		spoil(w)
		if run, err := w.answers().Run(t.Context(), "run-1", AllItems); err == nil {
			t.Errorf("%s: Run = %v, want an error", name, run.Logs)
		}
	}
}

func overwrite(blobs map[string][]byte, content string) {
	for k := range blobs {
		blobs[k] = []byte(content)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	d := counting("counter")
	w.drive(d, "run-1", 2, 1)
	p := w.runs["run-1"][1].Pending[0]
	retry := w.now.Add(5e9)
	w.apply(d, "run-1", statemachine.Event{Kind: statemachine.EventFailure, Effect: p.ID, Try: 1, RetryAt: &retry, Cause: &statemachine.Cause{Class: "error", Message: "no answer"}})
	w.apply(d, "run-1", statemachine.Event{ID: statemachine.CommandEventID("p1"), Kind: statemachine.EventPause, Body: json.RawMessage(`{"by":"jo","reason":"later"}`)})
	var got []*Revision
	for r, err := range w.answers().History(t.Context(), "run-1") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	first := w.runs["run-1"][0].Pending[0]
	want := []*Revision{
		{
			Revision: 1, From: "", To: "count", Status: statemachine.StatusRunning, At: began.Add(1e9), Build: "b1", By: "w1", Sequence: 3,
			Events:  []Event{{ID: "start", Kind: "start", At: began.Add(1e9)}},
			Effects: []Effect{{ID: first.ID, Effect: "step", Key: first.ID, Place: "inline", Try: 1}},
		},
		{
			Revision: 2, From: "count", To: "count", Status: statemachine.StatusRunning, At: began.Add(2e9), Build: "b1", By: "w1", Sequence: 6,
			Events:  []Event{{ID: "result:" + first.ID, Kind: "result", At: began.Add(2e9), Name: "step", Effect: first.ID}},
			Effects: []Effect{{ID: p.ID, Effect: "step", Key: p.ID, Place: "inline", Try: 1}},
		},
		{
			Revision: 3, From: "count", To: "count", Status: statemachine.StatusRunning, At: began.Add(3e9), Build: "b1", By: "w1", Sequence: 9,
			Events: []Event{{
				ID: "failure:" + p.ID + ":1", Kind: "failure", At: began.Add(3e9), Name: "step", Effect: p.ID, Try: 1, RetryAt: &retry,
				Error: &statemachine.Cause{Class: "error", Message: "no answer", State: "count", Effect: "step", Attempt: 1},
			}},
			Effects: []Effect{{ID: p.ID, Effect: "step", Key: p.ID, Place: "retry", Try: 2, RetryAt: &retry}},
		},
		{
			Revision: 4, From: "count", To: "count", Status: statemachine.StatusPaused, At: began.Add(4e9), Build: "b1", By: "w1", Sequence: 12,
			Events:  []Event{{ID: "cmd:p1", Kind: "pause", At: began.Add(4e9), Command: &statemachine.Command{By: "jo", Reason: "later"}}},
			Effects: []Effect{},
			Error:   &statemachine.Cause{Class: "paused", Message: "later", State: "count", By: "jo"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("History differs (-want +got):\n%s", diff)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	for i := range 30 {
		machine := []string{"counter", "other"}[i%2]
		w.drive(counting(machine), fmt.Sprintf("run-%02d", i), 2, i%3)
	}
	tests := []struct {
		name    string
		filter  Filter
		matched int
		first   string
		rows    int
	}{
		{"all, the last to move first", Filter{}, 30, "run-29", 30},
		{"a limit", Filter{Limit: 4}, 30, "run-29", 4},
		{"a limit above", Filter{Limit: 31}, 30, "run-29", 30},
		{"a machine", Filter{Machine: "counter", Limit: 1}, 15, "run-28", 1},
		{"a status", Filter{Status: statemachine.StatusSucceeded}, 10, "run-29", 10},
		{"a state", Filter{State: "count"}, 20, "run-28", 20},
		{"a field", Filter{Where: map[string]string{"n": "2"}}, 30, "run-29", 30},
		{"a field of another value", Filter{Where: map[string]string{"n": "3"}}, 0, "", 0},
		{"a field that is not there", Filter{Where: map[string]string{"m": "3"}}, 0, "", 0},
		{"several", Filter{Machine: "other", Status: statemachine.StatusRunning, State: "count"}, 10, "run-27", 10},
	}
	for _, tt := range tests {
		got, err := w.answers().Runs(t.Context(), tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		first := ""
		if len(got.Runs) > 0 {
			first = got.Runs[0].ID
		}
		if got.Matched != tt.matched || len(got.Runs) != tt.rows || first != tt.first {
			t.Errorf("%s: %d of %d, the first is %q, want %d of %d, %q", tt.name, len(got.Runs), got.Matched, first, tt.rows, tt.matched, tt.first)
		}
	}
}

func TestRunsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 1)
	w.broken = fmt.Errorf("record 7: %w", statemachine.ErrFormat)
	got, err := w.answers().Runs(t.Context(), Filter{})
	if err != nil || got.Unreadable != 1 || len(got.Runs) != 1 {
		t.Errorf("Runs = %+v, %v, want one run and one that is unreadable", got, err)
	}
	w.broken = errors.New("no connection")
	if _, err := w.answers().Runs(t.Context(), Filter{}); !errors.Is(err, w.broken) {
		t.Errorf("Runs = %v, want %v", err, w.broken)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	d := counting("counter")
	var seen []string
	for r, err := range w.answers().Follow(t.Context(), "run-1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			seen = append(seen, fmt.Sprint(r.Rev))
			continue
		}
		seen = append(seen, "idle")
		switch all := w.runs["run-1"]; len(all) {
		case 0:
			w.apply(d, "run-1", statemachine.Event{Kind: statemachine.EventStart, Body: json.RawMessage(`{"n":2}`)})
		default:
			w.apply(d, "run-1", statemachine.Event{Kind: statemachine.EventResult, Effect: all[len(all)-1].Pending[0].ID, Body: json.RawMessage(`1`)})
		}
	}
	if got, want := strings.Join(seen, " "), "idle 1 idle 2 idle 3"; got != want {
		t.Errorf("Follow = %s, want %s", got, want)
	}
	for r, err := range w.answers().Follow(t.Context(), "run-1", w.seq) {
		t.Errorf("a run that has ended yields %v, %v", r, err)
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.letters = []deadletter.Letter{
		{Seq: 1, Kind: deadletter.KindStart, Machine: "a"},
		{Seq: 2, Kind: deadletter.KindEffect, Machine: "a", Body: []byte(`{"a":1}`)},
		{Seq: 5, Kind: deadletter.KindEffect, Machine: "b", Body: []byte("text")},
		{Seq: 6, Kind: deadletter.KindOther, Body: []byte{0xff}},
	}
	var got []uint64
	for l, err := range w.answers().Mail(t.Context(), deadletter.Filter{Kind: deadletter.KindEffect}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Seq)
	}
	if want := []uint64{2, 5}; !cmp.Equal(want, got) {
		t.Errorf("Mail = %v, want %v", got, want)
	}
	for seq, want := range map[uint64]string{
		1: "", 2: `"body":{"a":1}`, 5: `"body_text":"text"`, 6: `"body_base64":"/w=="`,
	} {
		l, err := w.answers().Letter(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if seq == 1 {
			if strings.Contains(string(b), "body") {
				t.Errorf("letter 1 = %s, want no body", b)
			}
		} else if !strings.Contains(string(b), want) || strings.Count(string(b), `"body`) != 1 {
			t.Errorf("letter %d = %s, want %s", seq, b, want)
		}
	}
	if _, err := w.answers().Letter(t.Context(), 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("letter 3 = %v, want ErrNotFound", err)
	}
}
