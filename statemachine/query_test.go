package statemachine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

type polled struct {
	sm.Meta
	N   int         `json:"n"`
	Log sm.Log[int] `json:"log"`
}

func pollable(version int) *sm.Machine[polled] {
	m := sm.New[polled]("polled", version)
	m.Query("sum", func(p *polled) any { return map[string]any{"n": p.N, "items": p.Log.Len(), "run": p.RunID()} })
	m.Query("items", func(p *polled) any { return p.Log.Items() })
	m.Query("much", func(*polled) any { return strings.Repeat("x", sm.MaxQuery) })
	m.Query("none", func(*polled) any { return func() {} })
	m.State("nap", sm.Sleep(func(p *polled) time.Duration { p.N++; p.Log.Append(7); return time.Hour }, nil))
	m.Succeed("done")
	return m
}

// A query answers from the record; what it cannot do is one clear error, and the
// record stays as it is.
func TestQuery(t *testing.T) {
	d := pollable(1).Definitions()[0]
	f := d.Begin("r", nil, sm.Env{Now: time.Unix(1, 0)})
	if _, err := f.Apply(sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, Body: []byte(`{"n":3}`)}); err != nil {
		t.Fatal(err)
	}
	sealed, err := f.Seal()
	if err != nil {
		t.Fatal(err)
	}
	sealed.Seq = 1
	before := string(sealed.Bytes)
	if got, err := d.Query(&sealed.Stored, "sum"); err != nil || string(got) != `{"items":1,"n":4,"run":"r"}` {
		t.Errorf("sum = %s, %v", got, err)
	}
	for name, says := range map[string]string{
		"items": "only handlers have its items", "much": "answer of a query", "none": "unsupported type", "total": `has sum, items, much, none: "total" is unknown`,
	} {
		if got, err := d.Query(&sealed.Stored, name); err == nil || !strings.Contains(err.Error(), says) || got != nil || errors.Is(err, sm.ErrNoQuery) != (name == "total") {
			t.Errorf("%s = %s, %v, want an error with %q", name, got, err, says)
		}
	}
	if _, err := pollable(2).Definitions()[0].Query(&sealed.Stored, "sum"); err == nil || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("asked of another version: %v", err)
	}
	if after, err := sm.Encode(sealed.Record); err != nil || string(after) != before {
		t.Errorf("the record is another after it was asked: %v", err)
	}
}

func TestQueriesAreChecked(t *testing.T) {
	m := pollable(1)
	m.Query("Bad Name", func(*polled) any { return 1 })
	m.Query("sum", func(*polled) any { return 1 })
	m.Query("empty", nil)
	err := m.Definitions()[0].Check()
	for _, says := range []string{`query "Bad Name": not a name`, `query "sum": declared twice`, `query "empty": has no function`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check = %v, want %q", err, says)
		}
	}
}
