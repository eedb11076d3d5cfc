package statemachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

// answer folds a result into a run of one pending effect.
func answer(t *testing.T, d *sm.Definition, from *sm.Stored, body string, prepare ...func(f *sm.Fold)) *sm.Stored {
	t.Helper()
	f := d.Begin("r1", from, env())
	for _, p := range prepare {
		p(f)
	}
	e := sm.Event{Kind: sm.EventResult, At: t1, Effect: from.Pending[0].ID, Body: json.RawMessage(body)}
	if o, err := f.Apply(e); o != sm.Applied || err != nil {
		t.Fatalf("Apply(%s) = %v, %v", body, o, err)
	}
	s := seal(t, f).Stored
	s.Seq = from.Seq + 10
	if err := d.Refold(from, s.Record, nil); err != nil {
		t.Errorf("Refold: %v", err)
	}
	return &s
}

const use = `{"text":"let me look","call":{"tool":"tool.search","input":{"q":"pawl"}}}`

// TestLog follows a log through the records of a run.
func TestLog(t *testing.T) {
	t.Parallel()
	d := chats().Definitions()[0]
	first := begun(t, d, `{"messages":["hello"]}`)
	check := func(name string, got *sm.Stored, ref sm.LogRef, adds ...string) {
		t.Helper()
		if diff := cmp.Diff(map[string]sm.LogRef{"messages": ref}, got.Logs); diff != "" {
			t.Errorf("%s: logs (-want +got):\n%s", name, diff)
		}
		var raw []string
		for _, a := range got.Adds["messages"] {
			raw = append(raw, string(a))
		}
		if diff := cmp.Diff(adds, raw); diff != "" {
			t.Errorf("%s: adds (-want +got):\n%s", name, diff)
		}
	}
	check("start", first, sm.LogRef{Count: 1, Bytes: 7}, `"hello"`)
	if want := `{"messages":{"$log":"messages","to":1}}`; string(first.Data) != want || string(first.Pending[0].Input) != want {
		t.Errorf("data = %s, input = %s, want %s", first.Data, first.Pending[0].Input, want)
	}
	second := answer(t, d, first, use)
	check("answer", second, sm.LogRef{Count: 2, Bytes: 20}, `"let me look"`)
	if got := second.Pending[0]; got.Effect != "tool.search" || string(got.Input) != `{"q":"pawl"}` {
		t.Errorf("pending = %+v, want the tool that was chosen", got)
	}
	third := answer(t, d, second, `{"found":3}`, func(f *sm.Fold) { f.SealLog("messages", "chunk1", 2) })
	check("sealed", third, sm.LogRef{Count: 3, Sealed: 2, Head: "chunk1", After: 11, Bytes: 15}, `"{\"found\":3}"`)
	fourth := answer(t, d, third, use)
	check("more", fourth, sm.LogRef{Count: 4, Sealed: 2, Head: "chunk1", After: 11, Bytes: 28}, `"let me look"`)
	if want := `{"messages":{"$log":"messages","to":4},"next":{"tool":"tool.search","input":{"q":"pawl"}}}`; string(fourth.Data) != want {
		t.Errorf("data = %s, want %s", fourth.Data, want)
	}
	wrong := answer(t, d, fourth, `{}`, func(f *sm.Fold) {
		f.SealLog("messages", "chunk2", 3) // holds one item too few
		f.SealLog("other", "chunk2", 4)
	})
	check("not sealed", wrong, sm.LogRef{Count: 5, Sealed: 2, Head: "chunk1", After: 11, Bytes: 32}, `"{}"`)
}

// TestLogFaults checks what a log refuses.
func TestLogFaults(t *testing.T) {
	t.Parallel()
	d := chats().Definitions()[0]
	if _, err := d.Begin("r1", nil, env()).Apply(startEvent(`{"messages":{"$log":"messages","to":3}}`)); sm.ClassOf(err) != sm.ClassInvalidInput {
		t.Errorf("a reference from outside: %v, want class invalid_input", err)
	}
	from := begun(t, d, `{"messages":["hello"]}`)
	lost := *from.Record
	lost.Logs = nil
	e := sm.Event{Kind: sm.EventResult, Effect: from.Pending[0].ID, Body: json.RawMessage(use)}
	if _, err := d.Begin("r1", &sm.Stored{Record: &lost, Seq: 1}, env()).Apply(e); sm.ClassOf(err) != sm.ClassInvalidData {
		t.Errorf("data that does not fit its record: %v, want class invalid_data", err)
	}
	m := sm.New[chat]("chat", 2)
	m.State("think", sm.Call(model, func(c *chat) prompt { _ = c.Messages.Items(); return prompt{} }, nil))
	m.Succeed("done")
	if _, err := m.Definitions()[0].Begin("r1", nil, env()).Apply(startEvent(`{}`)); sm.ClassOf(err) != sm.ClassPanic ||
		!strings.Contains(err.Error(), `log "messages" is read in a callback`) {
		t.Errorf("reading in a callback: %v, want a panic that says so", err)
	}
	type broken struct {
		Log sm.Log[any] `json:"log"`
	}
	b := sm.New[broken]("m", 1)
	b.State("a", sm.Call(tell, func(b *broken) string { b.Log.Append(make(chan int)); return "" }, nil))
	b.Succeed("z")
	if _, err := b.Definitions()[0].Begin("r1", nil, env()).Apply(startEvent(`{}`)); sm.ClassOf(err) != sm.ClassInvalidData {
		t.Errorf("an item that is no JSON: %v, want class invalid_data", err)
	}
}

// TestUnknownEffect checks a choice that is not declared.
func TestUnknownEffect(t *testing.T) {
	t.Parallel()
	from := begun(t, chats().Definitions()[0], `{}`)
	e := sm.Event{Kind: sm.EventResult, At: t1, Effect: from.Pending[0].ID, Body: json.RawMessage(`{"text":"x","call":{"tool":"rm.all"}}`)}
	_, err := chats().Definitions()[0].Begin("r1", from, env()).Apply(e)
	if sm.ClassOf(err) != sm.ClassUnknownEffect || !strings.Contains(err.Error(), `in state act: effect "rm.all" is not among the tools`) {
		t.Errorf("Apply = %v, want class unknown_effect", err)
	}
	m := sm.New[chat]("chat", 2)
	m.State("think", sm.Call(model, (*chat).prompt, (*chat).heard)).Visits(2, "lost")
	m.State("act", sm.CallOf(sm.Tools(search), (*chat).pick, (*chat).observed)).Catch(sm.ClassUnknownEffect, "think")
	m.Succeed("done")
	m.Fail("lost", "lost")
	f := m.Definitions()[0].Begin("r1", from, env())
	if o, err := f.Apply(e); o != sm.Applied || err != nil {
		t.Fatalf("Apply = %v, %v, want applied", o, err)
	}
	got := seal(t, f)
	if got.To != "think" || got.Frames[0].Visit != 2 || got.Frames[0].Cause.Class != sm.ClassUnknownEffect {
		t.Errorf("run is in %s, frame %+v, want in think with the cause", got.To, got.Frames[0])
	}
}

// TestLogOfHandler checks both forms of a log outside a machine.
func TestLogOfHandler(t *testing.T) {
	t.Parallel()
	var p prompt
	if err := json.Unmarshal([]byte(`{"messages":["a","<b>"]}`), &p); err != nil {
		t.Fatal(err)
	}
	p.Messages.Append("c")
	if got := p.Messages.Items(); !slices.Equal(got, []string{"a", "<b>", "c"}) || p.Messages.Len() != 3 {
		t.Errorf("Items = %q", got)
	}
	for i, m := range p.Messages.All() {
		if m != []string{"a", "<b>", "c"}[i] {
			t.Errorf("All yields %q at %d", m, i)
		}
	}
	if b, err := p.Messages.MarshalJSON(); string(b) != `["a","<b>","c"]` || err != nil {
		t.Errorf("MarshalJSON = %s, %v", b, err)
	}
	if err := json.Unmarshal([]byte(`{"messages":{"$log":"messages","to":2}}`), &p); err != nil || p.Messages.Len() != 2 {
		t.Errorf("reference form: %v, %d items", err, p.Messages.Len())
	}
	for _, bad := range []string{`{"messages":{"to":2}}`, `{"messages":{"$log":"m","to":-1}}`, `{"messages":7}`} {
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("Unmarshal(%s) gave no error", bad)
		}
	}
}

// TestNeedsSeal checks when a log is to be sealed.
func TestNeedsSeal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ref  sm.LogRef
		want bool
	}{
		{sm.LogRef{Count: 255, Bytes: 1, After: 90}, false},
		{sm.LogRef{Count: 1, Bytes: 1, After: 89}, true}, // it lies before what stays
		{sm.LogRef{Count: 1, Sealed: 1, After: 89}, false},
		{sm.LogRef{Count: 256}, true},
		{sm.LogRef{Count: 500, Sealed: 256, After: 91}, false},
		{sm.LogRef{Count: 512, Sealed: 256}, true},
		{sm.LogRef{Count: 2, Bytes: 64 << 10}, true},
	} {
		r := sm.Record{Logs: map[string]sm.LogRef{"log": tt.ref}, Roll: &sm.Epoch{Rev: 9, Next: sm.Mark{Rev: 9, After: 90}}}
		if got := r.NeedsSeal("log"); got != tt.want {
			t.Errorf("NeedsSeal(%+v) = %t, want %t", tt.ref, got, tt.want)
		}
	}
}
