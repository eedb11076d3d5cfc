package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/statemachine"
)

// mailroom is one without a fleet: letters go, or do not.
type mailroom struct {
	deadletter.Fleet
	newest uint64
	fails  uint64 // sequence of a letter that does not go

	mu    sync.Mutex
	gone  []uint64
	lines []bulk.Entry
}

func (m *mailroom) Newest(context.Context) (uint64, error) { return m.newest, nil }

func (m *mailroom) Last(_ context.Context, runs []string) ([]*statemachine.Stored, error) {
	return make([]*statemachine.Stored, len(runs)), nil
}

func (m *mailroom) Remove(_ context.Context, l deadletter.Letter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.Seq == m.fails {
		return errors.New("it does not go")
	}
	m.gone = append(m.gone, l.Seq)
	return nil
}

func (m *mailroom) Note(_ context.Context, e bulk.Entry) error {
	m.lines = append(m.lines, e)
	return nil
}

func (m *mailroom) Registered(_ context.Context, machine string, version int) (bool, error) {
	return machine == "counter" && version < 2, nil
}

// A start that is only accepted says if no worker has its machine.
func TestAcceptedOfNoMachine(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	a := w.answers()
	a.Sender, a.Mailroom = &mailer{w: w}, &mailroom{}
	s := newServer(t, a, ServerOptions{})
	for _, tt := range []struct {
		machine string
		version int
		want    string
	}{
		{"counter", 0, ""},
		{"nosuch", 0, "no worker has registered machine nosuch"},
		{"counter", 2, "no worker has registered machine counter version 2"},
	} {
		r, err := do[Started](t, s, RunsStart, StartRequest{Machine: tt.machine, Version: tt.version, Timeout: new(statemachine.Duration)})
		if err != nil || r.Outcome != OutcomeAccepted || r.Note != tt.want {
			t.Errorf("start of %s version %d = %+v, %v, want %q", tt.machine, tt.version, r, err, tt.want)
		}
	}
}

// inMailroom is a server on which there are letters.
func inMailroom(t *testing.T, letters int) (*Server, *mailroom) {
	t.Helper()
	w, m := newTwin(t), &mailroom{newest: uint64(letters)}
	for i := range letters + 3 { // three have come since
		l := deadletter.Letter{Seq: uint64(i + 1), ID: fmt.Sprint(i), Kind: deadletter.KindEffect, Machine: "m", Run: fmt.Sprint("r", i), Class: "c"}
		if i%2 == 1 {
			l.Class = "other"
		}
		w.letters = append(w.letters, l)
	}
	a := w.answers()
	a.Mailroom = m
	return newServer(t, a, ServerOptions{}), m
}

// A selection is changed page by page, each letter once; what came since it was
// asked for is left.
func TestLettersAreChangedByPage(t *testing.T) {
	t.Parallel()
	s, m := inMailroom(t, 11)
	q := LettersChange{Select: &deadletter.Filter{Class: "c"}, Reason: "x", By: "ann", RequestID: "req", Limit: 4}
	var pages []int
	for {
		r, err := do[LettersReport](t, s, LettersDiscard, q)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, r.Changed)
		if r.Next == 0 {
			break
		}
		q.After, q.Through = r.Next, r.Through
	}
	slices.Sort(m.gone)
	if want := []uint64{1, 3, 5, 7, 9, 11}; !slices.Equal(m.gone, want) || !slices.Equal(pages, []int{4, 2}) {
		t.Errorf("letters %v are gone, by pages of %v, want %v", m.gone, pages, want)
	}
	var steps []string
	for _, l := range m.lines {
		steps = append(steps, l.Step)
		if l.ID != "req" || l.By != Unverified+"ann" || l.Reason != "x" || l.What != "discard letters" {
			t.Errorf("line %+v", l)
		}
	}
	if want := []string{"begin", "items", "end", "begin", "items", "end"}; !slices.Equal(steps, want) {
		t.Errorf("the audit record has %v, want %v", steps, want)
	}
	if got := string(m.lines[3].Selection); got != `{"select":{"class":"c"},"limit":4,"after":7,"through":11}` {
		t.Errorf("the second page's selection is recorded as %s", got)
	}
}

// A plan changes nothing and leaves no trace; an error says what was done before
// it; and what is not clear is refused.
func TestLettersAreNotChanged(t *testing.T) {
	t.Parallel()
	s, m := inMailroom(t, 5)
	r, err := do[LettersReport](t, s, LettersPlan, LettersChange{All: true})
	if err != nil || r.Refused != 5 || r.Reasons["its run is gone"].Count != 5 || !r.Planned || len(m.lines) > 0 {
		t.Errorf("plan: %+v, %v; %d lines", r, err, len(m.lines))
	}
	m.fails = 3
	if _, err := do[LettersReport](t, s, LettersDiscard, LettersChange{All: true, Reason: "x"}); !isClass(err, ClassUnavailable) || !strings.Contains(err.Error(), "4 letters were changed before") {
		t.Errorf("a letter that does not go: %v", err)
	}
	if last := m.lines[len(m.lines)-1]; last.Step != bulk.StepEnd || last.Error == "" || last.Report.Changed != 4 {
		t.Errorf("the audit record ends with %+v", last)
	}
	many := make([]uint64, MaxPage+1)
	for says, q := range map[string]LettersChange{
		"which letters?":                       {Reason: "x"},
		"one of letters, select and all":       {Letters: []uint64{1}, All: true, Reason: "x"},
		"select selects nothing":               {Select: &deadletter.Filter{}, Reason: "x"},
		"reason is missing":                    {All: true},
		"reason has 3000 bytes, over 2048":     {All: true, Reason: strings.Repeat("x", 3000)},
		"edit is for a redrive only":           {All: true, Reason: "x", Edit: json.RawMessage(`{}`)},
		"limit 1001 is not 1 to 1000":          {All: true, Reason: "x", Limit: 1001},
		"letters has 1001 sequences":           {Letters: many, Reason: "x"},
		"limit, after and through are for let": {Letters: []uint64{1}, Reason: "x", Limit: 1},
		`kind "x" is none of start, signal`:    {Select: &deadletter.Filter{Kind: "x"}, Reason: "x"},
	} {
		if _, err := do[LettersReport](t, s, LettersDiscard, q); !isClass(err, ClassBadRequest) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", q, err, says)
		}
	}
	if _, err := do[LettersReport](t, newServer(t, newTwin(t).answers(), ServerOptions{}), LettersPlan, LettersChange{All: true}); !isClass(err, ClassUnavailable) {
		t.Errorf("without a mailroom: %v", err)
	}
}
