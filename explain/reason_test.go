package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

var now = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// pending is an effect of a run, since a minute ago.
func pending(place statemachine.Place, change ...func(*statemachine.Pending)) statemachine.Pending {
	p := statemachine.Pending{ID: "e1", Effect: "model.chat", Place: place, Attempt: 2, Try: 2, Rev: 7, At: now.Add(-time.Minute)}
	for _, c := range change {
		c(&p)
	}
	return p
}

// facts are those of a run that is under way, and that two workers could carry
// on, with nothing that is amiss.
func facts(p ...statemachine.Pending) *Facts {
	return &Facts{
		Now: now, Run: "r-1",
		Record: &statemachine.Record{
			Run: "r-1", Machine: "report", Version: 3, To: "summarise", Status: statemachine.StatusRunning, Rev: 7, By: "w1", At: now.Add(-time.Minute), Pending: p,
		},
		Wakes: map[string]Message{}, Letters: map[string]Letter{}, Claims: map[string]Claim{},
		Workers: []Worker{
			{ID: "w1", Ready: true, Machines: []string{"report@3"}, Effects: []string{"model.chat"}},
			{ID: "w2", Ready: true, Machines: []string{"report@3"}, Effects: []string{"model.chat"}},
		},
	}
}

// Each cause is named, whether it goes on by itself, and what would help.
func TestCauses(t *testing.T) {
	t.Parallel()
	later, before := now.Add(4*time.Second), now.Add(-4*time.Second)
	failed := func(p *statemachine.Pending) {
		p.Cause = &statemachine.Cause{Class: "http_5xx", Message: "503 from the provider"}
	}
	retryAt := func(at time.Time) func(*statemachine.Pending) {
		return func(p *statemachine.Pending) { p.RetryAt = &at }
	}
	keyed := func(p *statemachine.Pending) { p.Key = "renewal:4412" }
	in := func(f *Facts, change func(*Facts)) *Facts { change(f); return f }
	with := func(place statemachine.Place, m Message) *Facts {
		return in(facts(pending(place, failed, retryAt(before))), func(f *Facts) { f.Wakes["e1"] = m })
	}
	ended := func(s statemachine.Status) *Facts {
		return in(facts(), func(f *Facts) {
			f.Record.Status, f.Record.Cause = s, &statemachine.Cause{Class: "cancelled", By: "ann"}
		})
	}
	none := func(f *Facts) { f.Record = nil }
	cause := func(class string) func(*statemachine.Pending) {
		return func(p *statemachine.Pending) { p.Cause = &statemachine.Cause{Class: class, Message: "nobody knows"} }
	}
	undone := func(p statemachine.Pending) *Facts {
		p.Undoes = "e0"
		f := facts(p)
		f.Record.Ending = &statemachine.Ending{Status: statemachine.StatusCancelled}
		f.Record.Undos = []statemachine.Undo{{Of: "e-1", State: "visa", Effect: "visa.return"}, {Of: "e0", State: "flight", Effect: "model.chat"}}
		return f
	}
	tests := []struct {
		name  string
		facts *Facts
		code  Code
		alone bool
		text  string // that the first reason's has
		help  string // … and its help
	}{
		{"ended", ended(statemachine.StatusCancelled), Ended, false, "it has ended: cancelled", "pawl run result r-1"},
		{"removed", in(ended(statemachine.StatusFailed), func(f *Facts) { f.Record.Tomb = &statemachine.Tombstone{} }), Ended, false, "its records were removed", ""},
		{"no such run", in(facts(), none), NotFound, false, "no such run", ""},
		{"a start in line", in(facts(), func(f *Facts) { f.Record, f.Starts = nil, &Queue{Waiting: 3, InLine: 2} }), StartWaits, true, "3 starts wait to be taken, 2 of them in line by priority and tenant", "pawl worker ls"},
		{"a start among others", in(facts(), func(f *Facts) { f.Record, f.Starts = nil, &Queue{Waiting: 3, InHand: 2} }), StartWaits, true, "3 starts wait", "pawl worker ls"},
		{"a start put off", in(facts(), func(f *Facts) {
			f.Record, f.Starts = nil, &Queue{Waiting: 3, Postponed: &Message{Place: Postponed, Due: later}}
		}), StartWaits, true, "no worker could take its start yet", "pawl worker ls"},
		{"a start refused", in(facts(), func(f *Facts) {
			f.Record, f.Letters[""] = nil, Letter{Seq: 12, Class: "invalid_input", Cause: "field to"}
		}), StartRefused, false, "invalid_input: field to", "dlq-replayer show 12"},
		{"a newer build's", in(facts(), func(f *Facts) { f.Record, f.Strange = nil, "version 2" }), NewerFormat, false, "version 2", "pawl worker ls"},
		{"paused", in(facts(pending(statemachine.Held)), func(f *Facts) {
			f.Record.Status, f.Record.Cause = statemachine.StatusPaused, &statemachine.Cause{Class: "paused", By: "ann", Message: "provider is down"}
		}), Paused, false, "it is paused by ann: provider is down", "pawl run resume r-1"},
		{"given up, a letter", in(facts(pending(statemachine.Parked, failed)), func(f *Facts) { f.Letters["e1"] = Letter{Seq: 3} }), GivenUp, false, "model.chat was given up at attempt 2: http_5xx: 503 from the provider (letter 3)", "pawl run retry r-1"},
		{"given up, its letter taken out", in(facts(pending(statemachine.Parked, failed)), func(f *Facts) { f.Letters["e1"] = Letter{} }), GivenUp, false, "its letter was taken out", "pawl run retry r-1"},
		{"given up, DLQ full", in(facts(pending(statemachine.Parked, failed)), func(f *Facts) { f.Full = []FullStream{{"PAWL_DLQ", "9 of 9 messages", true}} }), StreamFull, false, "stream PAWL_DLQ is full (9 of 9 messages)", "pawl doctor"},
		{"a try to come", in(facts(pending(statemachine.Retry, failed, retryAt(later))), func(f *Facts) { f.Wakes["e1"] = Message{Place: Scheduled, Due: later} }), Retry, true, "waits for attempt 2, after http_5xx: 503", "pawl run watch r-1"},
		{"accepted", facts(pending(statemachine.Retry, retryAt(later), func(p *statemachine.Pending) { p.Cause = &statemachine.Cause{Class: statemachine.ClassAccepted} })), Accepted, true, "was accepted by who performs it", "pawl run watch r-1"},
		{"a try put off", in(facts(pending(statemachine.Retry, failed, retryAt(later))), func(f *Facts) {
			f.Record.Events = []statemachine.Event{{Kind: statemachine.EventFailure, Effect: "e1", Free: true}}
		}), Throttled, true, "spent no attempt", "pawl run watch r-1"},
		{"a key held by another", in(facts(pending(statemachine.Retry, keyed, retryAt(later))), func(f *Facts) { f.Keys = map[string]KeyHolder{"e1": {Run: "r-0"}} }), KeyHeld, true, `run "r-0" holds`, "pawl run explain r-0"},
		{"a schedule that is nowhere", in(facts(pending(statemachine.Retry, retryAt(later))), func(f *Facts) { f.Wakes["e1"] = Message{Place: Missing} }), Retry, true, "the sweeper arms it again", "pawl run watch r-1"},
		{"a try that is due", with(statemachine.Retry, Message{Place: InLine}), RetryDue, true, "waits for a worker", "pawl run watch r-1"},
		{"a try the broker has not sent", with(statemachine.Retry, Message{Place: Scheduled}), RetryDue, true, "the broker has not sent", "pawl run watch r-1"},
		{"a try that is lost", with(statemachine.Retry, Message{Place: Missing}), Lost, true, "the sweeper sends it again", "pawl run watch r-1"},
		{"a try that could not be taken", with(statemachine.Retry, Message{Place: Postponed, Due: later}), Again, true, "comes again", "pawl worker ls"},
		{"in its queue", with(statemachine.Queued, Message{Place: InLine, Ahead: 40, Pulls: 2}), InQueue, true, "waits in its queue, at most 40 before it", "pawl worker ls"},
		{"in a queue nobody asks", with(statemachine.Queued, Message{Place: InLine}), InQueue, true, "no worker asks for more of this type", "pawl worker ls"},
		{"delivered and not begun", with(statemachine.Queued, Message{Place: InHand, Again: 30 * time.Second}), Delivered, true, "after 30s without a sign of life", "pawl run watch r-1"},
		{"a message that could not be taken", with(statemachine.Queued, Message{Place: Postponed, Due: later}), Again, true, "comes again", "pawl worker ls"},
		{"a message that is lost", with(statemachine.Queued, Message{Place: Missing}), Lost, true, "its message is nowhere", "pawl run watch r-1"},
		{"performed", in(facts(pending(statemachine.Queued)), func(f *Facts) { f.Claims["e1"] = Claim{"w2", 5 * time.Second} }), Performing, true, "worker w2 performs model.chat, attempt 2", "pawl run cancel r-1"},
		{"its performer is gone", in(facts(pending(statemachine.Inline)), func(f *Facts) { f.Claims["e1"] = Claim{"w9", 5 * time.Second} }), OwnerLost, true, "worker w9 had begun", "pawl run watch r-1"},
		{"inline, Redis not seen", in(facts(pending(statemachine.Inline)), func(f *Facts) { f.Claims = nil }), Inline, true, "performed by the worker that asked for it by w1", "pawl run watch r-1"},
		{"inline, Redis not seen, worker gone", in(facts(pending(statemachine.Inline)), func(f *Facts) { f.Claims, f.Record.By = nil, "w9" }), OwnerLost, true, "worker w9 was to perform", "pawl run watch r-1"},
		{"inline and nobody's", facts(pending(statemachine.Inline)), Unclaimed, true, "nobody performs model.chat", "pawl run watch r-1"},
		{"no handler", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			for i := range f.Workers {
				f.Workers[i].Effects = []string{"mail"}
			}
		}), NoHandler, false, "2 workers answer, and none performs model.chat", "deploy"},
		{"no machine", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			for i := range f.Workers {
				f.Workers[i].Machines = []string{"report@2"}
			}
		}), NoMachine, false, "none has report version 3", "deploy"},
		{"no workers", in(facts(pending(statemachine.Inline)), func(f *Facts) { f.Workers = []Worker{} }), NoWorkers, false, "no worker answers", "start a worker"},
		{"no worker is ready", in(facts(pending(statemachine.Queued)), func(f *Facts) { f.Workers[0].Ready, f.Workers[1].Ready = false, false }), NotReady, false, "2 workers answer, and none is ready", "pawl doctor"},
		{"HISTORY is full", in(facts(pending(statemachine.Queued)), func(f *Facts) { f.Full = []FullStream{{"PAWL_HISTORY", "all", false}} }), StreamFull, false, "PAWL_HISTORY is full", "pawl doctor"},
		{"its type is paused", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Holds = map[string]Hold{"e1": {Code: EffectPaused, What: "effect model.chat", Effect: "model.chat", By: "ann", Reason: "the bill"}}
		}), EffectPaused, false, "model.chat may not begin: effect model.chat is paused by ann: the bill", "pawl effect resume model.chat"},
		{"its state is paused", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Holds = map[string]Hold{"e1": {Code: StatePaused, What: "state summarise of machine report", Machine: "report", State: "summarise"}}
		}), StatePaused, false, "state summarise of machine report is paused", "pawl state resume report summarise"},
		{"its key is closed", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Holds = map[string]Hold{"e1": {Code: KeyClosed, What: `key "acme" of effect model.chat`, Effect: "model.chat", Key: "acme inc", Until: later}}
		}), KeyClosed, true, `key "acme" of effect model.chat is closed`, "pawl effect resume model.chat --key 'acme inc'"},
		{"its type is limited", in(with(statemachine.Queued, Message{Place: Postponed, Due: later}), func(f *Facts) { f.Limits = map[string]string{"model.chat": "4 at once"} }), Limited, true, "limits of it are 4 at once", "effects.limits.model.chat in the configuration of the workers"},
		{"in doubt", facts(pending(statemachine.Parked, cause(statemachine.ClassInDoubt))), InDoubt, false, "nobody knows", "pawl run retry r-1; pawl run resolve r-1 --effect e1 '{…}'"},
		{"workers died", facts(pending(statemachine.Parked, cause(statemachine.ClassCrash))), Crashed, false, "was given up at attempt 2: crash:", "pawl run retry r-1"},
		{"in doubt, its worker may live", in(facts(pending(statemachine.Retry, cause("error"), retryAt(later))), func(f *Facts) {
			f.Tries = map[string]Try{"e1": {N: 1, By: "w9", Until: later, Open: true}}
		}), Unverified, true, "worker w9 has begun model.chat and told no outcome", "pawl run watch r-1"},
		{"in doubt, cut off", in(facts(pending(statemachine.Retry, cause("timeout"), retryAt(later))), func(f *Facts) {
			f.Tries = map[string]Try{"e1": {N: 1, By: "w1", Unknown: true}}
		}), Unverified, true, "may have performed it: that is found out, or left to a person", "pawl run watch r-1"},
		{"in doubt, to find out failed", facts(pending(statemachine.Retry, cause(statemachine.ClassInDoubt), retryAt(later))), Unverified, true, "has to be found out, after in_doubt: nobody knows", "pawl run watch r-1"},
		{"it is found out", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Claims["e1"], f.Tries = Claim{"w2", time.Second}, map[string]Try{"e1": {N: 2, By: "w2", Open: true, Asks: true, Crashes: 1}}
		}), Verifying, true, "worker w2 finds out whether a try before performed model.chat, and performs it if not; workers that died at it before: 1", "pawl run cancel r-1"},
		{"begun, and Redis not seen", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Claims, f.Tries = nil, map[string]Try{"e1": {N: 2, By: "w2", Until: later, Open: true}}
		}), Performing, true, "worker w2 performs model.chat", "pawl run cancel r-1"},
		{"begun, and Redis forgot, worker gone", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Tries = map[string]Try{"e1": {N: 2, By: "w9", Until: later, Open: true}}
		}), OwnerLost, true, "worker w9 had begun model.chat and answers no more", "pawl run watch r-1"},
		{"it is undone", in(undone(pending(statemachine.Queued)), func(f *Facts) { f.Claims["e1"] = Claim{"w2", time.Second} }), Undoing, true,
			"worker w2 performs model.chat (to undo state flight), attempt 2; 1 more to undo until the run ends as cancelled", "pawl run cancel r-1 --no-undo"},
		{"to undo it failed", undone(pending(statemachine.Retry, failed, retryAt(later))), UndoRetry, true, "(to undo state flight) waits for attempt 2, after http_5xx", "pawl run watch r-1"},
		{"to undo it was given up", undone(pending(statemachine.Parked, failed)), UndoGivenUp, false, "(to undo state flight) was given up at attempt 2", "pawl run retry r-1; pawl run resolve r-1 --effect e1 '{…}'"},
		{"to undo it is in doubt", undone(pending(statemachine.Parked, cause(statemachine.ClassInDoubt))), InDoubt, false, "(to undo state flight)", "pawl run retry r-1; pawl run resolve r-1 --effect e1 '{…}'"},
		{"it is cancelled, something is under way", in(facts(pending(statemachine.Queued)), func(f *Facts) {
			f.Record.Ending, f.Record.Undos = &statemachine.Ending{Status: statemachine.StatusCancelled}, make([]statemachine.Undo, 2)
			f.Claims["e1"] = Claim{"w2", time.Second}
		}), Performing, true, "once it has its outcome, what the run did is undone (2), and it ends as cancelled", "pawl run cancel r-1 --no-undo"},
		{"a command on its way", in(facts(pending(statemachine.Parked)), func(f *Facts) {
			f.Told = []Message{{Place: InLine, Kind: "command", Name: "redrive", Stored: before}}
		}), EventWaits, true, "a command redrive is stored and not applied yet", "pawl run watch r-1"},
		{"a place of another build", facts(pending("elsewhere")), Elsewhere, false, "its place is elsewhere", "pawl run show r-1"},
		{"nothing is pending", facts(), NothingToWait, false, "nothing is pending in state summarise", "pawl run show r-1"},
	}
	codes := map[Code]bool{}
	for _, tt := range tests {
		x := Of(tt.facts)
		codes[tt.code] = true
		r := x.Because[0]
		if x.Cause != tt.code || r.Code != tt.code || r.Alone != tt.alone || !strings.Contains(r.Text, tt.text) || !strings.Contains(r.Help, tt.help) || tt.help == "" && r.Help != "" {
			t.Errorf("%s: %s, alone %v: %q, %q\nwant %s, %v: %q, %q", tt.name, x.Cause, r.Alone, r.Text, r.Help, tt.code, tt.alone, tt.text, tt.help)
		}
	}
	if len(codes) < 20 {
		t.Errorf("%d causes were explained", len(codes))
	}
}

// What waits for a person comes before what takes its course, and what stops
// everything before both: then nothing goes on by itself.
func TestTheWorstIsFirst(t *testing.T) {
	t.Parallel()
	f := facts(pending(statemachine.Queued), pending(statemachine.Parked, func(p *statemachine.Pending) { p.ID = "e2" }))
	f.Letters["e2"] = Letter{Seq: 1}
	codes := func() (all []Code) {
		for _, r := range Of(f).Because {
			all = append(all, r.Code)
		}
		return all
	}
	if got, want := codes(), []Code{GivenUp, InQueue}; !slices.Equal(got, want) {
		t.Errorf("reasons %v, want %v", got, want)
	}
	f.Workers = []Worker{}
	if got, want := codes(), []Code{NoWorkers, GivenUp, InQueue}; !slices.Equal(got, want) {
		t.Errorf("reasons %v, want %v", got, want)
	}
	for _, r := range Of(f).Because {
		if r.Alone {
			t.Errorf("%s goes on by itself, without a worker", r.Code)
		}
	}
	f.Record.Pending = f.Record.Pending[1:] // workers would not help
	if got, want := codes(), []Code{GivenUp}; !slices.Equal(got, want) {
		t.Errorf("reasons %v, want %v", got, want)
	}
}

// A run that waits for a thousand effects has an explanation that can be read.
func TestManyReasonsAreCut(t *testing.T) {
	t.Parallel()
	var all []statemachine.Pending
	for i := range 1000 {
		all = append(all, pending(statemachine.Queued, func(p *statemachine.Pending) { p.ID = fmt.Sprint("e", i) }))
	}
	all[999].Place = statemachine.Parked
	x := Of(facts(all...))
	if len(x.Because) != MaxReasons || x.More != 1000-MaxReasons || x.Cause != GivenUp {
		t.Errorf("%d reasons and %d more, cause %s", len(x.Because), x.More, x.Cause)
	}
}

// The id of a run is one word of a command, whatever it is.
func TestHelpIsOneCommand(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"report-4412": "report-4412", "a b": "'a b'", "it's; rm -rf": `'it'\''s; rm -rf'`, "-x": "-- '-x'", "$(x)": "'$(x)'", "Ärger": "'Ärger'",
	} {
		if got := word(id); got != want {
			t.Errorf("word(%q) = %s, want %s", id, got, want)
		}
	}
}

// What is waited for that is no effect is named as well.
func TestCausesOfWaits(t *testing.T) {
	t.Parallel()
	later, before := now.Add(time.Hour), now.Add(-4*time.Second)
	wait := func(kind statemachine.WaitKind, due *time.Time, change ...func(*statemachine.Wait)) *Facts {
		w := statemachine.Wait{ID: "w1", Kind: kind, Due: due, Try: 1, At: now.Add(-time.Minute)}
		for _, c := range change {
			c(&w)
		}
		f := facts()
		f.Record.Waits = []statemachine.Wait{w}
		return f
	}
	named := func(w *statemachine.Wait) { w.Signal = "irb approved" }
	failed := func(w *statemachine.Wait) { w.Cause = &statemachine.Cause{Class: "panic", Message: "oh"} }
	missing := wait(statemachine.WaitSleep, &later)
	missing.Wakes["w1"] = Message{Place: Missing}
	lettered := wait(statemachine.WaitSleep, &before, failed)
	lettered.Letters["w1"] = Letter{Seq: 7}
	nobody := wait(statemachine.WaitSleep, &later)
	nobody.Workers = []Worker{}
	for name, tt := range map[string]struct {
		f     *Facts
		code  Code
		alone bool
		text  string
		help  string
	}{
		"sleeps":            {wait(statemachine.WaitSleep, &later), Sleeping, true, "state summarise sleeps until 2026-11-30T09:00:00Z", "pawl run watch r-1"},
		"for a worker":      {wait(statemachine.WaitSleep, &before), WaitDue, true, "4s ago: it waits for a worker", "pawl run watch r-1"},
		"its timer is gone": {missing, Lost, true, "the sweeper arms it again", "pawl run watch r-1"},
		"a signal":          {wait(statemachine.WaitSignal, nil, named), AwaitsSignal, false, "waits for signal irb approved", "pawl run signal r-1 'irb approved' '{…}'"},
		"a bound":           {wait(statemachine.WaitWithin, &later), Bounded, true, "is left if it is not done by 2026-11-30T09:00:00Z", "pawl run watch r-1"},
		"a deadline":        {wait(statemachine.WaitDeadline, &later), Bounded, true, "the run fails if it is not over by", "pawl run watch r-1"},
		"cannot go on":      {lettered, GivenUp, false, "cannot go on from summarise: panic: oh", "pawl run retry r-1"},
		"nobody there":      {nobody, NoWorkers, false, "no worker answers", "start a worker"},
	} {
		x := Of(tt.f)
		if r := x.Because[0]; r.Code != tt.code || r.Alone != tt.alone || !strings.Contains(r.Text, tt.text) || !strings.Contains(r.Help, tt.help) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if x := Of(lettered); x.Because[0].Letter != 7 {
		t.Errorf("letter %d, want 7", x.Because[0].Letter)
	}
}
