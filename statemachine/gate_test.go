package statemachine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// plea is the data of a machine that asks people.
type plea struct {
	sm.Meta
	sm.Approval `json:"approval"`
	Amount      int          `json:"amount"`
	Decision    *sm.Decision `json:"decision,omitempty"`
	Broken      bool         `json:"broken,omitempty"`
}

type notice struct {
	sm.Notice
	Run   string `json:"run"`
	Visit int    `json:"visit"`
}

const (
	tellThem sm.Effect[notice, string] = "tell"
	goAhead  sm.Effect[int, string]    = "go"
)

func (p *plea) shown() int     { return p.Amount }
func (p *plea) approved() bool { return p.Decision.Approved() }
func (p *plea) notice() notice { return notice{p.Notice(), p.RunID(), p.Visit()} }
func (p *plea) decided(d sm.Decision) {
	if p.Broken {
		panic("cannot decide that")
	}
	p.Decision = &d
}

// pleas asks, and does what was approved.
func pleas() *sm.Definition {
	m := sm.New[plea]("plea", 1)
	m.State("ask", sm.ApproveOf((*plea).approval, (*plea).shown, (*plea).decided).Tell(sm.Call(tellThem, (*plea).notice, nil))).
		Within(10*time.Hour, "late").When((*plea).approved, "act").Then("refused")
	m.State("act", sm.Call(goAhead, (*plea).shown, nil)).Then("done")
	m.Succeed("done")
	m.Fail("refused", "refused")
	m.Fail("late", "late")
	return m.Definitions()[0]
}

func (p *plea) approval() sm.Approval { return p.Approval }

func pleaStart(t *testing.T, d *sm.Definition, a sm.Approval, more ...func(*plea)) *sm.Stored {
	t.Helper()
	p := plea{Approval: a, Amount: 7}
	for _, f := range more {
		f(&p)
	}
	input, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return next(t, d, nil, sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: input})
}

// saysOf is an approver's command.
func saysOf(t *testing.T, r *sm.Stored, id, by string, v sm.Verdict, at time.Time) sm.Event {
	t.Helper()
	return approvalEvent(t, sm.EventApproval, id, sm.Command{By: by, Reason: "because", Approval: of(t, r, sm.WaitApproval).ID, Verdict: v}, at)
}

func approvalEvent(t *testing.T, kind sm.EventKind, id string, c sm.Command, at time.Time) sm.Event {
	t.Helper()
	e := commandEvent(kind, id, c)
	e.At = at
	return e
}

// refusedAs checks that the last event was refused, changed nothing and is so
// answered.
func refusedAs(t *testing.T, before, after *sm.Stored, class string) {
	t.Helper()
	e := after.Events[len(after.Events)-1]
	reply := after.Reply(e.ID)
	if e.Cause == nil || e.Cause.Class != class || reply == nil || reply.Cause == nil || reply.Cause.Class != class || reply.Cause.Message == "" {
		t.Errorf("event %s is refused as %+v, answered %+v, want class %s", e.ID, e.Cause, reply, class)
	}
	gate, _ := json.Marshal(before.Waits)
	again, _ := json.Marshal(after.Waits)
	if string(gate) != string(again) || after.To != before.To {
		t.Errorf("it changed what the run waits for:\n%s\n%s", gate, again)
	}
}

func toldOf(t *testing.T, r *sm.Stored) notice {
	t.Helper()
	var n notice
	p := r.Pending[len(r.Pending)-1]
	if err := json.Unmarshal(p.Input, &n); err != nil || p.Effect != tellThem.Name() {
		t.Fatalf("%s %s: %v", p.Effect, p.Input, err)
	}
	return n
}

// TestApproval: it is asked for, told, answered once by each approver, and
// decided by the quorum; whoever else says something is told why not.
func TestApproval(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna", "bert", "carl"}, Quorum: 2})
	w := of(t, r, sm.WaitApproval)
	if g := w.Gate; string(g.Shown) != "7" || g.Visit != 1 || g.Quorum != 2 || len(g.Hash) != 22 || r.V != 5 {
		t.Fatalf("%+v in a record of version %d", g, r.V)
	}
	if n := toldOf(t, r); n.Kind != sm.NoticeAsk || len(n.To) != 3 || n.Approval != w.ID || n.Run != "r1" || !n.Deadline.Equal(t0.Add(10*time.Hour)) {
		t.Errorf("they are told %+v", n)
	}
	one := next(t, d, r, saysOf(t, r, "1", "unverified:anna", sm.Approved, t1))
	if one.To != "ask" || len(of(t, one, sm.WaitApproval).Gate.Answers) != 1 || len(one.Pending) != 1 {
		t.Fatalf("after one answer: %s, %+v", one.To, one.Waits)
	}
	for class, e := range map[string]sm.Event{
		sm.ClassAnswered:        saysOf(t, one, "2", "anna", sm.Rejected, t1),
		sm.ClassNotAllowed:      saysOf(t, one, "2", "dora", sm.Approved, t1),
		sm.ClassTooLate:         saysOf(t, one, "2", "bert", sm.Approved, t0.Add(10*time.Hour)),
		sm.ClassUnknownApproval: approvalEvent(t, sm.EventApproval, "2", sm.Command{By: "bert", Approval: "another", Verdict: sm.Approved}, t1),
		sm.ClassShownChanged:    approvalEvent(t, sm.EventApproval, "2", sm.Command{By: "bert", Approval: w.ID, Verdict: sm.Approved, Hash: "old"}, t1),
	} {
		refusedAs(t, one, next(t, d, one, e), class)
	}
	nobody := approvalEvent(t, sm.EventApproval, "2", sm.Command{Approval: w.ID, Verdict: sm.Approved}, t1)
	refusedAs(t, one, next(t, d, one, nobody), sm.ClassNotAllowed)
	two := next(t, d, one, saysOf(t, one, "3", "bert", sm.Approved, t1))
	if two.To != "act" || len(two.Waits) != 0 || len(two.Pending) != 1 || two.Pending[0].Place != sm.Queued || two.Pending[0].Effect != goAhead.Name() {
		t.Fatalf("after two: %s, %+v, %+v", two.To, two.Waits, two.Pending)
	}
	var p plea
	if err := json.Unmarshal(two.Data, &p); err != nil || len(p.Decision.Answers) != 2 || p.Decision.Answers[0].By != "unverified:anna" || p.Decision.Answers[1].Reason != "because" {
		t.Errorf("decided %+v, %v", p.Decision, err)
	}
	if o := outcomeOf(t, d, two, approvalEvent(t, sm.EventApproval, "3", sm.Command{By: "bert", Approval: w.ID, Verdict: sm.Approved}, t1)); o != sm.Duplicate {
		t.Errorf("the same answer again is %v", o)
	}
	if o := outcomeOf(t, d, two, sm.Event{Kind: sm.EventResult, Effect: r.Pending[0].ID, At: t1}); o != sm.Stale {
		t.Errorf("what came of telling is %v after the decision", o)
	}
}

// TestApprovalIsRejectedByOne: whatever the quorum.
func TestApprovalIsRejectedByOne(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna", "bert"}, Quorum: 2})
	r = next(t, d, r, saysOf(t, r, "1", "bert", sm.Rejected, t1))
	if r.Status != sm.StatusFailed || r.To != "refused" || len(r.Pending) != 0 {
		t.Errorf("%s in %s, pending %+v", r.Status, r.To, r.Pending)
	}
}

// TestApprovalOfPinnedUsers: nobody else's word counts.
func TestApprovalOfPinnedUsers(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}, Pinned: true})
	refusedAs(t, r, next(t, d, r, saysOf(t, r, "1", "unverified:anna", sm.Approved, t1)), sm.ClassNotAllowed)
	if r = next(t, d, r, saysOf(t, r, "2", "anna", sm.Approved, t1)); r.To != "act" {
		t.Errorf("in %s", r.To)
	}
}

// TestApprovalReminds: those who have not answered, again and again, unless
// they are still being told.
func TestApprovalReminds(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna", "bert"}, Quorum: 2, Remind: time.Hour})
	r = next(t, d, r, dueOf(of(t, r, sm.WaitRemind), t0.Add(time.Hour)))
	if len(r.Pending) != 1 || toldOf(t, r).Kind != sm.NoticeAsk {
		t.Fatalf("they are told twice at once: %+v", r.Pending)
	}
	r = next(t, d, r, saysOf(t, r, "1", "anna", sm.Approved, t0.Add(time.Hour)))
	r = next(t, d, r, sm.Event{Kind: sm.EventResult, Effect: r.Pending[0].ID, At: t0.Add(time.Hour), Body: json.RawMessage(`"sent"`)})
	if r.To != "ask" || len(r.Pending) != 0 {
		t.Fatalf("in %s, pending %+v", r.To, r.Pending)
	}
	w := of(t, r, sm.WaitRemind)
	if w.Try != 2 || !w.Due.Equal(t0.Add(2*time.Hour)) {
		t.Fatalf("the next reminder: %+v", w)
	}
	if o := outcomeOf(t, d, r, dueOf(w, t0.Add(2*time.Hour-1))); o != sm.Early {
		t.Errorf("too early it is %v", o)
	}
	r = next(t, d, r, dueOf(w, t0.Add(2*time.Hour)))
	if n := toldOf(t, r); n.Kind != sm.NoticeRemind || !slices.Equal(n.To, []string{"bert"}) || n.Reminder != 2 {
		t.Errorf("told %+v", n)
	}
	for range 2 * sm.MaxReminders {
		i := slices.IndexFunc(r.Waits, func(w sm.Wait) bool { return w.Kind == sm.WaitRemind })
		if i < 0 || !r.Waits[i].Due.Before(t0.Add(10*time.Hour)) {
			break
		}
		r = next(t, d, r, dueOf(r.Waits[i], *r.Waits[i].Due))
	}
	r = next(t, d, r, dueOf(of(t, r, sm.WaitWithin), t0.Add(10*time.Hour)))
	if r.To != "late" || len(r.Pending)+len(r.Waits) != 0 {
		t.Errorf("in %s, %+v, %+v", r.To, r.Pending, r.Waits)
	}
}

// TestApprovalRemindersEnd: there are not endlessly many.
func TestApprovalRemindersEnd(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}, Remind: time.Minute})
	for n := 1; ; n++ {
		i := slices.IndexFunc(r.Waits, func(w sm.Wait) bool { return w.Kind == sm.WaitRemind })
		if i < 0 {
			if n != sm.MaxReminders+1 {
				t.Errorf("%d reminders", n-1)
			}
			break
		}
		r = next(t, d, r, dueOf(r.Waits[i], *r.Waits[i].Due))
	}
	if len(r.Pending) != 1 || kinds(r) != "approval within" {
		t.Errorf("pending %+v, waits %s", r.Pending, kinds(r))
	}
}

// TestApprovalEscalates: others may decide as well, one level after the other.
func TestApprovalEscalates(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}, Escalate: []sm.Escalation{{After: time.Hour, By: []string{"boss"}}, {After: 3 * time.Hour, By: []string{"chief"}}}})
	refusedAs(t, r, next(t, d, r, saysOf(t, r, "1", "boss", sm.Approved, t1)), sm.ClassNotAllowed)
	r = next(t, d, r, dueOf(of(t, r, sm.WaitEscalate), t0.Add(time.Hour)))
	if n := toldOf(t, r); n.Kind != sm.NoticeEscalate || !slices.Equal(n.To, []string{"boss"}) || len(r.Pending) != 2 {
		t.Errorf("told %+v, %d pending", n, len(r.Pending))
	}
	w := of(t, r, sm.WaitEscalate)
	if w.Try != 2 || !w.Due.Equal(t0.Add(3*time.Hour)) {
		t.Fatalf("the next level: %+v", w)
	}
	r = next(t, d, r, dueOf(w, t0.Add(3*time.Hour)))
	if kinds(r) != "approval within" || !slices.Equal(of(t, r, sm.WaitApproval).Gate.By, []string{"anna", "boss", "chief"}) {
		t.Errorf("waits %s, %+v", kinds(r), of(t, r, sm.WaitApproval).Gate)
	}
	if r = next(t, d, r, saysOf(t, r, "2", "boss", sm.Approved, t0.Add(4*time.Hour))); r.To != "act" || len(r.Pending) != 1 {
		t.Errorf("in %s, pending %+v", r.To, r.Pending)
	}
}

// TestApprovalIsDelegated: whoever takes the part over decides in place of who
// had it, once.
func TestApprovalIsDelegated(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna", "bert"}})
	hand := func(id, by, to string) sm.Event {
		return approvalEvent(t, sm.EventDelegate, id, sm.Command{By: by, To: to, Approval: of(t, r, sm.WaitApproval).ID}, t1)
	}
	refusedAs(t, r, next(t, d, r, hand("1", "dora", "emil")), sm.ClassNotAllowed)
	refusedAs(t, r, next(t, d, r, hand("1", "anna", "bert")), sm.ClassNotAllowed)
	r = next(t, d, r, hand("1", "anna", "carl"))
	if n := toldOf(t, r); n.Kind != sm.NoticeDelegate || !slices.Equal(n.To, []string{"carl"}) {
		t.Errorf("told %+v", n)
	}
	if g := of(t, r, sm.WaitApproval).Gate; !slices.Equal(g.By, []string{"carl", "bert"}) || g.Delegated[0].From != "anna" {
		t.Errorf("%+v", g)
	}
	refusedAs(t, r, next(t, d, r, saysOf(t, r, "2", "anna", sm.Approved, t1)), sm.ClassNotAllowed)
	if r = next(t, d, r, saysOf(t, r, "3", "carl", sm.Approved, t1)); r.To != "act" {
		t.Errorf("in %s", r.To)
	}
}

// TestApprovalExpires: the default decides, and says so.
func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}, Expire: time.Hour, Default: sm.Approved})
	w := of(t, r, sm.WaitApproval)
	refusedAs(t, r, next(t, d, r, saysOf(t, r, "1", "anna", sm.Rejected, t0.Add(time.Hour))), sm.ClassTooLate)
	r = next(t, d, r, dueOf(w, t0.Add(time.Hour)))
	var p plea
	if err := json.Unmarshal(r.Data, &p); err != nil || r.To != "act" || !p.Decision.Expired || !p.Decision.Approved() {
		t.Errorf("in %s, decided %+v, %v", r.To, p.Decision, err)
	}
}

// TestTellingNeverHoldsUp: an approval whose approvers cannot be told waits on,
// with a letter, and is decided all the same; the next reminder takes the place
// of what was given up.
func TestTellingNeverHoldsUp(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}, Remind: time.Hour})
	p := r.Pending[0]
	r = next(t, d, r, sm.Event{Kind: sm.EventFailure, Effect: p.ID, Try: p.Try, At: t1, Cause: &sm.Cause{Class: "smtp", Message: "no such mailbox"}})
	if r.Status != sm.StatusRunning || r.Cause != nil || r.Pending[0].Place != sm.Parked || r.Outbox[0].Kind != sm.EntryLetter {
		t.Fatalf("%s, %+v, %+v", r.Status, r.Pending, r.Outbox)
	}
	again := next(t, d, r, commandEvent(sm.EventRedrive, "c1", sm.Command{Effect: p.ID}))
	if again.Pending[0].Place != sm.Queued || again.Pending[0].Try != 2 {
		t.Errorf("redriven: %+v", again.Pending)
	}
	reminded := next(t, d, r, dueOf(of(t, r, sm.WaitRemind), t0.Add(time.Hour)))
	if len(reminded.Pending) != 1 || reminded.Pending[0].ID == p.ID || toldOf(t, reminded).Kind != sm.NoticeRemind {
		t.Errorf("reminded: %+v", reminded.Pending)
	}
	if r = next(t, d, r, saysOf(t, r, "1", "anna", sm.Rejected, t1)); r.Status != sm.StatusFailed {
		t.Errorf("decided: %s", r.Status)
	}
	held := next(t, d, reminded, commandEvent(sm.EventCancel, "c2", sm.Command{}))
	if held.Status != sm.StatusCancelled || len(held.Pending)+len(held.Waits) != 0 {
		t.Errorf("cancelled: %s, %+v", held.Status, held.Pending)
	}
}

// TestApprovalThatTheMachineCannotTake is refused, and can be given again.
func TestApprovalThatTheMachineCannotTake(t *testing.T) {
	t.Parallel()
	d := pleas()
	r := pleaStart(t, d, sm.Approval{By: []string{"anna"}}, func(p *plea) { p.Broken = true })
	refusedAs(t, r, next(t, d, r, saysOf(t, r, "1", "anna", sm.Approved, t1)), sm.ClassPanic)
}

// TestApprovalAsDeclared: what is wrong with one is said at start, or where its
// data is.
func TestApprovalAsDeclared(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]sm.Approval{
		"it names nobody who may decide":                {},
		`approver "a.b" is not one token of a subject`:  {By: []string{"a.b"}},
		`approver "anna" is named twice`:                {By: []string{"anna"}, Escalate: []sm.Escalation{{After: 1, By: []string{"anna"}}}},
		"its quorum is 2, of 1 approvers":               {By: []string{"anna"}, Quorum: 2},
		"its Remind is 1ms, not 1s to 87600h0m0s":       {By: []string{"anna"}, Remind: time.Millisecond},
		"an escalation names nobody":                    {By: []string{"anna"}, Escalate: []sm.Escalation{{After: 1}}},
		"an escalation after 1ns: it is later than":     {By: []string{"anna"}, Escalate: []sm.Escalation{{After: 1, By: []string{"b"}}, {After: 1, By: []string{"c"}}}},
		"its Default says what is decided then":         {By: []string{"anna"}, Expire: time.Hour},
		"it has a Default, and does not say when":       {By: []string{"anna"}, Default: sm.Rejected},
		"for how long? Say Within, Forever or Approval": {By: []string{"anna"}},
	} {
		m := sm.New[plea]("plea", 1)
		m.State("ask", sm.Approve(a, (*plea).shown, (*plea).decided))
		m.Succeed("done")
		if err := m.Definitions()[0].Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", a, err, want)
		}
	}
	m := sm.New[plea]("plea", 1)
	m.State("ask", sm.ApproveOf[plea, int](nil, nil, nil).Tell(sm.Call(tellThem, nil, func(*plea, string) {})).Tell(sm.Sleep[plea](nil, nil))).Forever().Within(1, "done")
	m.Succeed("done")
	err := m.Definitions()[0].Check()
	for _, want := range []string{"ApproveOf has no function", "has more than one Tell", "Tell that performs no effect", "waits Forever, and Within"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	d := pleas()
	input, _ := json.Marshal(plea{})
	if _, err := d.Begin("r1", nil, sm.Env{Now: t0}).Apply(sm.Event{Kind: sm.EventStart, At: t0, Body: input}); sm.ClassOf(err) != sm.ClassInvalidData || !strings.Contains(err.Error(), "names nobody") {
		t.Errorf("an approval by nobody: %v", err)
	}
}

// TestApprovalsAtOnce: those of several branches do not mix, each has its own
// approvers, reminders and answers, and the state is done when all are decided.
func TestApprovalsAtOnce(t *testing.T) {
	t.Parallel()
	type claims struct {
		plea
		Legal, Money *sm.Decision
	}
	m := sm.New[claims]("claims", 1)
	asks := func(by string, into func(*claims, sm.Decision)) *sm.ApproveAction[claims] {
		return sm.Approve(sm.Approval{By: []string{by}, Remind: time.Hour}, func(*claims) string { return by }, into).
			Tell(sm.Call(tellThem, func(c *claims) notice { return c.notice() }, nil))
	}
	m.State("ask", sm.All(
		sm.Branch("legal", asks("anna", func(c *claims, d sm.Decision) { c.Legal = &d })),
		sm.Branch("money", asks("bert", func(c *claims, d sm.Decision) { c.Money = &d })),
	)).Within(10*time.Hour, "late").Then("done")
	m.Succeed("done")
	m.Fail("late", "late")
	d := m.Definitions()[0]
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	r := next(t, d, nil, sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(`{}`)})
	if kinds(r) != "approval remind approval remind within" || len(r.Pending) != 2 {
		t.Fatalf("waits %s, pending %+v", kinds(r), r.Pending)
	}
	if _, ok := r.Gate(""); ok {
		t.Error("one of two is found without its id")
	}
	legal, money := r.Waits[0], r.Waits[2]
	answer := func(id, by string, w sm.Wait) sm.Event {
		return approvalEvent(t, sm.EventApproval, id, sm.Command{By: by, Approval: w.ID, Verdict: sm.Approved}, t1)
	}
	refusedAs(t, r, next(t, d, r, answer("1", "anna", money)), sm.ClassNotAllowed)
	r = next(t, d, r, dueOf(r.Waits[3], t0.Add(time.Hour)))
	r = next(t, d, r, answer("2", "bert", money))
	if kinds(r) != "approval remind within" || len(r.Pending) != 1 || r.Pending[0].Tells != legal.ID || r.To != "ask" {
		t.Fatalf("after one decision: waits %s, pending %+v, in %s", kinds(r), r.Pending, r.To)
	}
	refusedAs(t, r, next(t, d, r, answer("3", "bert", money)), sm.ClassUnknownApproval)
	r = next(t, d, r, answer("4", "anna", legal))
	var c claims
	if err := json.Unmarshal(r.Data, &c); err != nil || r.Status != sm.StatusSucceeded || c.Legal.Answers[0].By != "anna" || c.Money.Answers[0].By != "bert" {
		t.Errorf("%s, %+v, %v", r.Status, c, err)
	}
}

// TestApprovalAmongBranches: what the other branches came to may lie in blobs,
// and is read for the answer that decides; that is no reason to refuse it.
func TestApprovalAmongBranches(t *testing.T) {
	t.Parallel()
	type both struct {
		Letters  int          `json:"letters,omitempty"`
		Decision *sm.Decision `json:"decision,omitempty"`
	}
	m := sm.New[both]("both", 1)
	m.State("ask", sm.All(
		sm.Branch("people", sm.Approve(sm.Approval{By: []string{"anna"}}, func(*both) int { return 1 }, func(b *both, d sm.Decision) { b.Decision = &d })),
		sm.Branch("text", sm.Call(tick, func(*both) string { return "x" }, func(b *both, s string) { b.Letters = len(s) })),
	)).Within(10*time.Hour, "late").Then("done")
	m.Succeed("done")
	m.Fail("late", "late")
	d := m.Definitions()[0]
	asked := begin(t, d, `{}`)
	large, err := json.Marshal(strings.Repeat("x", 9000))
	if err != nil {
		t.Fatal(err)
	}
	f := d.Begin(asked.Run, asked, env())
	if o, err := f.Apply(sm.Event{Kind: sm.EventResult, Effect: asked.Pending[0].ID, Body: large, At: t1}); o != sm.Applied || err != nil {
		t.Fatal(o, err)
	}
	s := seal(t, f)
	s.Seq = asked.Seq + 1
	f = d.Begin(s.Run, &s.Stored, env())
	o, err := f.ApplyWith(saysOf(t, &s.Stored, "1", "anna", sm.Approved, t1), func(hash string) ([]byte, error) { return s.Blobs[hash], nil })
	if o != sm.Applied || err != nil {
		t.Fatal(o, err)
	}
	if r := seal(t, f); r.To != "done" || len(r.Replies) > 0 || !strings.Contains(string(r.Data), `"letters":9000`) || !strings.Contains(string(r.Data), `"approve"`) {
		t.Errorf("in %s with %s, replies %+v", r.To, r.Data, r.Replies)
	}
}
