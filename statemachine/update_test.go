package statemachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	sm "github.com/pawlrun/pawl/statemachine"
)

// purse is the data of a machine that answers updates.
type purse struct {
	Have   int      `json:"have"`
	Spent  []string `json:"spent,omitempty"`
	Closed bool     `json:"closed,omitempty"`
}

type spending struct {
	For    string `json:"for"`
	Amount int    `json:"amount"`
}

// spend changes the data first, and then may find that it does not go.
func (p *purse) spend(s spending) (int, error) {
	p.Spent = append(p.Spent, s.For)
	p.Have -= s.Amount
	switch {
	case s.For == "panic":
		panic("no such thing")
	case s.For == "secret":
		return 0, sm.Terminal("not_for_you", errors.New("you may not have it"))
	case p.Have < 0:
		return 0, fmt.Errorf("%d are missing", -p.Have)
	}
	return p.Have, nil
}

func (p *purse) print(n int) (string, error) { return strings.Repeat("x", n), nil }

func (p *purse) close(bool) { p.Closed = true }

func purses() *sm.Machine[purse] {
	m := sm.New[purse]("purse", 1)
	sm.Update(m, "spend", (*purse).spend)
	sm.Update(m, "print", (*purse).print)
	m.State("open", sm.Signal("close", (*purse).close)).Forever()
	m.State("save", sm.Call(save, func(p *purse) int { return p.Have }, nil)).Undo(sm.Call(save, func(p *purse) int { return 0 }, nil))
	m.State("kept", sm.Signal("again", func(*purse, bool) {})).Forever()
	m.Succeed("done")
	return m
}

const save sm.Effect[int, int] = "save"

func updateEvent(id, name, input string) sm.Event {
	return commandEvent(sm.EventUpdate, id, sm.Command{By: "ann", Name: name, Input: json.RawMessage(input)})
}

func purseStart(t *testing.T, d *sm.Definition) *sm.Stored {
	t.Helper()
	return next(t, d, nil, sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(`{"have":10}`)})
}

// TestUpdate: what the machine takes is answered and in the data, what it
// refuses has changed nothing, and each id is answered once.
func TestUpdate(t *testing.T) {
	t.Parallel()
	d := purses().Definitions()[0]
	r := purseStart(t, d)
	if r.V != 4 {
		t.Errorf("a run without answers is of version %d", r.V)
	}
	r = next(t, d, r, updateEvent("1", "spend", `{"for":"tea","amount":3}`))
	if reply := r.Reply("cmd:1"); reply == nil || string(reply.Value) != "7" || reply.Cause != nil || r.V != 5 || len(r.Waits) != 1 {
		t.Fatalf("%+v in a record of version %d, which waits for %v", reply, r.V, r.Waits)
	}
	if e := r.Events[0]; e.Name != "spend" || e.Cause != nil || !strings.Contains(string(e.Body), `"by":"ann"`) {
		t.Errorf("the event is %+v", e)
	}
	data := string(r.Data)
	for _, tt := range []struct{ name, input, class, says string }{
		{"spend", `{"for":"all","amount":9}`, sm.ClassRefused, "2 are missing"},
		{"spend", `{"for":"secret"}`, "not_for_you", "you may not have it"},
		{"spend", `{"for":"panic"}`, sm.ClassPanic, "no such thing"},
		{"spend", `{"amount":"much"}`, sm.ClassInvalidInput, "field amount: string given where int is expected"},
		{"save", `{}`, sm.ClassUnknownUpdate, `has update spend, print: "save" is unknown`},
		{"print", `9000`, sm.ClassTooLarge, "answer of 9002 bytes exceeds the limit"},
	} {
		r = next(t, d, r, updateEvent("no-"+tt.class, tt.name, tt.input))
		reply := r.Reply("cmd:no-" + tt.class)
		if reply == nil || reply.Cause == nil || reply.Cause.Class != tt.class || !strings.Contains(reply.Cause.Message, tt.says) || reply.Value != nil {
			t.Errorf("%s %s: answered %+v, want %s: %s", tt.name, tt.input, reply, tt.class, tt.says)
		}
		if c := r.Events[0].Cause; c == nil || c.Class != tt.class || string(r.Data) != data || len(r.Outbox) > 0 {
			t.Errorf("%s %s: refused as %+v, and the data is %s", tt.name, tt.input, c, r.Data)
		}
	}
	if o, err := d.Begin("r1", r, sm.Env{Now: t2}).Apply(updateEvent("1", "spend", `{"amount":3}`)); o != sm.Duplicate || err != nil {
		t.Errorf("the same again: %v, %v", o, err)
	}

	// Paused and parked runs answer as well, one that ends does not.
	r = next(t, d, r, commandEvent(sm.EventPause, "p", sm.Command{}))
	r = next(t, d, r, updateEvent("2", "spend", `{"amount":1}`))
	if reply := r.Reply("cmd:2"); string(reply.Value) != "6" || r.Status != sm.StatusPaused {
		t.Errorf("paused: %+v, %s", reply, r.Status)
	}
	r = next(t, d, r, commandEvent(sm.EventResume, "r", sm.Command{}))
	r = next(t, d, r, signalNamed("s", "close", `true`))
	r = next(t, d, r, sm.Event{Kind: sm.EventResult, At: t1, Effect: r.Pending[0].ID, Body: json.RawMessage("1")})
	r = next(t, d, r, commandEvent(sm.EventCancel, "c", sm.Command{}))
	if r = next(t, d, r, updateEvent("3", "spend", `{"amount":1}`)); r.Reply("cmd:3").Cause.Class != sm.ClassEnding {
		t.Errorf("on its way to its end: %+v", r.Reply("cmd:3"))
	}
	r = next(t, d, r, sm.Event{Kind: sm.EventResult, At: t1, Effect: r.Pending[0].ID, Body: json.RawMessage("1")})
	for id, want := range map[string]sm.Outcome{"1": sm.Duplicate, "4": sm.Ended} {
		if o, err := d.Begin("r1", r, sm.Env{Now: t2}).Apply(updateEvent(id, "spend", `{}`)); o != want || err != nil || r.Reply("cmd:1") == nil {
			t.Errorf("update %s of a run that has ended: %v, %v", id, o, err)
		}
	}
}

// TestRecordHasTheAnswersItGives: a record takes no more updates than it has
// room for their answers, small or large.
func TestRecordHasTheAnswersItGives(t *testing.T) {
	t.Parallel()
	d := purses().Definitions()[0]
	for n, most := range map[int]int{1: sm.MaxReplies, 8000: 7} {
		r := purseStart(t, d)
		f := d.Begin("r1", r, sm.Env{Now: t2})
		var ids []string
		for !f.Full() {
			ids = append(ids, fmt.Sprint(len(ids)))
			if o, err := f.Apply(updateEvent(ids[len(ids)-1], "print", fmt.Sprint(n))); o != sm.Applied || err != nil {
				t.Fatal(o, err)
			}
		}
		s := seal(t, f)
		if len(ids) != most || len(s.Replies) != most {
			t.Errorf("answers of %d bytes: %d updates, %d replies, want %d", n, len(ids), len(s.Replies), most)
		}
		for _, id := range ids {
			if reply := s.Reply(sm.CommandEventID(id)); reply == nil || len(reply.Value) != n+2 {
				t.Errorf("answers of %d bytes: update %s is answered %+v", n, id, reply)
			}
		}
	}
}

// TestUpdateCommands: what no run can take is refused when it is sent.
func TestUpdateCommands(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]sm.Command{
		`"" is no name of an update`:    {},
		`"A b" is no name of an update`: {Name: "A b"},
		"input of 65538 bytes":          {Name: "a", Input: json.RawMessage(`"` + strings.Repeat("x", sm.MaxSignal) + `"`)},
		"the input is not JSON":         {Name: "a", Input: json.RawMessage(`{`)},
		"input nested of 1001 levels":   {Name: "a", Input: json.RawMessage(strings.Repeat("[", 1001) + strings.Repeat("]", 1001))},
	} {
		if err := c.Check(sm.EventUpdate); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check = %v, want %q", err, says)
		}
	}
	if err := (sm.Command{Name: "a"}).Check(sm.EventPause); err == nil || !strings.Contains(err.Error(), "name is for an update only") {
		t.Errorf("Check = %v", err)
	}
}

func TestUpdatesAreChecked(t *testing.T) {
	t.Parallel()
	m := purses()
	before := m.Definitions()[0].Hash
	sm.Update(m, "more", (*purse).print)
	if d := m.Definitions()[0]; d.Check() != nil || d.Hash == before || fmt.Sprint(d.Updates()) != "[spend print more]" {
		t.Errorf("%v, %v: builds with and without an update have the same hash", d.Check(), d.Updates())
	}
	sm.Update(m, "Bad Name", (*purse).print)
	sm.Update(m, "spend", (*purse).print)
	sm.Update[purse, int, int](m, "empty", nil)
	err := m.Definitions()[0].Check()
	for _, says := range []string{`update "Bad Name": not a name`, `update "spend": declared twice`, `update "empty": has no function`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check = %v, want %q", err, says)
		}
	}
}

func signalNamed(id, name, body string) sm.Event {
	return sm.Event{ID: sm.SignalEventID(id), Kind: sm.EventSignal, Name: name, At: t1, Seq: 9, Body: json.RawMessage(body)}
}

// TestSignalsAreCheckedAtTheDoor: by the names that the machine takes, unless it
// makes one of its data, and by what their payloads are.
func TestSignalsAreCheckedAtTheDoor(t *testing.T) {
	t.Parallel()
	d, open := purses().Definitions()[0], trials().Definitions()[0]
	for _, tt := range []struct {
		d                      *sm.Definition
		name, body, class, say string
	}{
		{d, "close", `true`, "", ""},
		{d, "close", `"no"`, sm.ClassInvalidInput, "signal close: string given where bool is expected"},
		{d, "nosuch", `true`, sm.ClassUnknownSignal, `machine purse version 1 takes signal again, close: "nosuch" is unknown`},
		{open, "nosuch", `true`, "", ""},
	} {
		if err := tt.d.CheckSignal(tt.name, json.RawMessage(tt.body)); sm.ClassOf(err) != tt.class || tt.say != "" && !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s %s: %v, want %s", tt.name, tt.body, err, tt.say)
		}
	}

	// What comes past the door: a name that nobody takes stays in the inbox.
	r := next(t, d, purseStart(t, d), signalNamed("s", "nosuch", `true`))
	if len(r.Inbox) != 1 || r.Inbox[0].Name != "nosuch" || r.To != "open" {
		t.Errorf("inbox %+v in state %s", r.Inbox, r.To)
	}
}

// TestANameThatNoSignalCanHave is refused when the machine makes it of its data.
func TestANameThatNoSignalCanHave(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.b", "a b", "A", "", strings.Repeat("a", 65)} {
		m := sm.New[purse]("m", 1)
		m.State("wait", sm.SignalOf(func(*purse) string { return name }, nil)).Forever()
		m.Succeed("done")
		_, err := m.Definitions()[0].Begin("r1", nil, sm.Env{Now: t1}).Apply(startEvent(`{}`))
		if sm.ClassOf(err) != sm.ClassInvalidData || !strings.Contains(err.Error(), "not a name ([a-z]") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
