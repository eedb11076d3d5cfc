package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/explain"
	"github.com/pawlrun/pawl/statemachine"
)

// bid is the data of a run that asks people.
type bid struct {
	statemachine.Meta
	By      []string              `json:"by"`
	Quorum  int                   `json:"quorum"`
	Remind  statemachine.Duration `json:"remind"`
	Wait    statemachine.Duration `json:"wait"`
	Decided statemachine.Decision `json:"decided"`
}

const (
	informs statemachine.Effect[string, int] = "informs"
	paysOut statemachine.Effect[string, int] = "pays.out"
)

// bids is a fleet of runs that ask people, and what came of it.
type bids struct {
	*stuck
	mu   sync.Mutex
	told []string
	paid map[string]int // by key
}

func askPeople(t *testing.T) *bids {
	return &bids{stuck: &stuck{fleet: realServers(t), open: make(chan struct{})}, paid: map[string]int{}}
}

func (b *bids) catalog() *statemachine.Catalog {
	m := statemachine.New[bid]("bid", 1)
	m.State("ask", statemachine.ApproveOf(
		func(d *bid) statemachine.Approval {
			return statemachine.Approval{By: d.By, Quorum: d.Quorum, Remind: time.Duration(d.Remind)}
		},
		func(d *bid) string { return "pay " + d.RunID() }, func(d *bid, what statemachine.Decision) { d.Decided = what },
	).Tell(statemachine.Call(informs, func(d *bid) string {
		n := d.Notice()
		return fmt.Sprint(d.RunID(), " ", n.Kind, " ", n.To)
	}, nil))).WithinOf(func(d *bid) time.Duration { return time.Duration(d.Wait) }, "late").
		When(func(d *bid) bool { return !d.Decided.Approved() }, "refused")
	m.State("pay", statemachine.Call(paysOut, (*bid).RunID, nil)).Then("done")
	m.Succeed("done")
	m.Fail("refused", "refused")
	m.Fail("late", "late")
	c := new(statemachine.Catalog).Add(m)
	statemachine.Handle(c, informs, func(_ context.Context, _ string, text string) (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, text)
		return 0, nil
	})
	statemachine.Handle(c, paysOut, func(_ context.Context, key, _ string) (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.paid[key]++
		return 0, nil
	})
	return c
}

// ask makes a request of the control API, as a user, "" being nobody in
// particular. It is made again while no worker answers.
func (b *bids) ask(user string, v api.Verb, request, answer any) *api.Error {
	b.t.Helper()
	f := apiFleet{fleet: b.fleet}
	eventually(b.t, 10*time.Second, "an answer of the control API", func() bool {
		_, err := b.nc.Request(api.Subject("pawl", "", api.MachinesList), nil, time.Second)
		return err == nil
	})
	return f.askAs(user, v, request, answer)
}

func (b *bids) asks(r *statemachine.Stored) bool { return r.To == "ask" }

// rows are the runs of a list, and their approvals.
func (b *bids) rows(approver string, from api.Source) (rows []string) {
	b.t.Helper()
	var l api.Listing
	if e := b.ask("", api.RunsList, api.RunsQuery{Approver: approver, Source: from}, &l); e != nil {
		b.t.Fatal(e)
	}
	for _, r := range l.Runs {
		if len(r.Approvals) != 1 || r.Approvals[0].Shown != nil {
			b.t.Errorf("%+v", r.Approvals)
		}
		rows = append(rows, r.ID)
	}
	slices.Sort(rows)
	return rows
}

// People are asked, found by who is to decide, and decide once, whoever asks
// again and whatever dies; what nobody may say is refused with its cause.
func TestPeopleDecideOnce(t *testing.T) {
	t.Parallel()
	b := askPeople(t)
	stop := b.work(b.catalog())
	for i, by := range []string{`["anna"]`, `["anna","bert"]`, `["bert"]`} {
		b.start("bid", fmt.Sprint("b", i), fmt.Sprintf(`{"by":%s,"quorum":%d,"wait":"1h","remind":"%ds"}`, by, 1+i%2, 1+i*3600))
	}
	for i := range 3 {
		b.reaches(fmt.Sprint("b", i), b.asks)
	}
	for _, from := range []api.Source{api.SourceIndex, api.SourceHistory} {
		for approver, want := range map[string]string{"anna": "[b0 b1]", "bert": "[b1 b2]", "carl": "[]", api.Anybody: "[b0 b1 b2]"} {
			eventually(t, 5*time.Second, "the list for "+approver+" from "+string(from), func() bool { return fmt.Sprint(b.rows(approver, from)) == want })
		}
	}
	var a api.Approval
	if e := b.ask("", api.ApprovalsGet, api.ApprovalQuery{ID: "b1"}, &a); e != nil || string(a.Shown) != `"pay b1"` || a.Quorum != 2 || a.State != "ask" || a.Deadline == nil {
		t.Errorf("%+v, %v", a, e)
	}
	if r := b.becomes("b1", b.asked, explain.AwaitsPeople); r.Alone || !strings.Contains(r.Text, "by anna, bert (0 of 2 have approved)") || !strings.HasPrefix(r.Help, "pawl approval show b1 ") {
		t.Errorf("explained as %+v", r)
	}
	answer := func(user, run, id string, v statemachine.Verdict) *api.Error {
		b.t.Helper()
		return b.ask(user, api.ApprovalsDecide, api.ApprovalRequest{ID: run, RequestID: id, Verdict: v, Reason: "as agreed"}, new(api.Told))
	}
	for what, tt := range map[string]struct {
		e     *api.Error
		class string
		code  int
	}{
		"nobody":        {answer("", "b1", "q1", statemachine.Approved), statemachine.ClassNotAllowed, 403},
		"somebody else": {answer("carl", "b1", "q2", statemachine.Approved), statemachine.ClassNotAllowed, 403},
		"no verdict":    {answer("anna", "b1", "q3", "perhaps"), api.ClassBadRequest, 400},
		"no run":        {answer("anna", "b9", "q4", statemachine.Approved), api.ClassNotFound, 404},
		"another text": {b.ask("anna", api.ApprovalsDecide, api.ApprovalRequest{ID: "b1", Verdict: statemachine.Approved, Hash: "old"}, new(api.Told)),
			statemachine.ClassShownChanged, 409},
		"none": {b.ask("anna", api.ApprovalsDecide, api.ApprovalRequest{ID: "b1", Verdict: statemachine.Approved, Approval: "nonesuch"}, new(api.Told)),
			statemachine.ClassUnknownApproval, 404},
	} {
		if tt.e == nil || tt.e.Class != tt.class || tt.e.Code != tt.code {
			t.Errorf("%s: %+v, want %d %s", what, tt.e, tt.code, tt.class)
		}
	}
	told := new(api.Told)
	q := api.ApprovalRequest{ID: "b1", RequestID: "first", Verdict: statemachine.Approved, Hash: a.Hash}
	for _, want := range []api.Outcome{api.OutcomeApplied, api.OutcomeDuplicate} {
		if e := b.ask("anna", api.ApprovalsDecide, q, told); e != nil || told.Outcome != want || told.Approval != a.ID && want == api.OutcomeApplied {
			t.Errorf("%+v, %v, want %s", told, e, want)
		}
	}
	if e := answer("anna", "b1", "second", statemachine.Rejected); e == nil || e.Class != statemachine.ClassAnswered {
		t.Errorf("a second answer: %+v", e)
	}
	eventually(t, 5*time.Second, "that anna is asked no more", func() bool { return fmt.Sprint(b.rows("anna", api.SourceIndex)) == "[b0]" })
	eventually(t, 10*time.Second, "a reminder", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Contains(b.told, "b0 remind [anna]")
	})

	// The worker goes, Redis forgets, and an answer is stored meanwhile.
	stop()
	if err := redis.NewClient(&redis.Options{Addr: b.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.command(statemachine.EventApproval, "b1", "third", statemachine.Command{By: "bert", Verdict: statemachine.Approved, Approval: a.ID})
	b.command(statemachine.EventApproval, "b1", "third", statemachine.Command{By: "bert", Verdict: statemachine.Approved, Approval: a.ID})
	b.work(b.catalog(), func(c *pawl.Config) { c.Worker.SweepEvery = time.Second })
	if r := b.ended("b1"); r.Status != statemachine.StatusSucceeded || !strings.Contains(string(r.Data), `"by":"bert"`) {
		t.Errorf("b1: %s", describe(r))
	}
	if e := b.ask("bert", api.ApprovalsDecide, api.ApprovalRequest{ID: "b1", Approval: a.ID, Verdict: statemachine.Approved}, told); e == nil || e.Class != api.ClassEnded {
		t.Errorf("an answer to a run that has ended: %+v", e)
	}
	if e := b.ask("", api.ApprovalsGet, api.ApprovalQuery{ID: "b1", Approval: a.ID}, &a); e != nil || a.Over == nil || a.Over.To != "pay" || len(a.Answers) != 2 {
		t.Errorf("what became of it: %+v, %v", a, e)
	}
	if e := b.ask("bert", api.ApprovalsDelegate, api.ApprovalRequest{ID: "b2", To: "carl"}, told); e != nil || told.Outcome != api.OutcomeApplied {
		t.Errorf("delegated: %+v, %v", told, e)
	}
	eventually(t, 10*time.Second, "that carl finds it", func() bool { return fmt.Sprint(b.rows("carl", api.SourceIndex)) == "[b2]" })
	if e := answer("carl", "b2", "no", statemachine.Rejected); e != nil {
		t.Error(e)
	}
	if r := b.ended("b2"); r.Status != statemachine.StatusFailed || r.Cause.Class != "refused" {
		t.Errorf("b2: %s", describe(r))
	}
	if e := answer("anna", "b0", "yes", statemachine.Approved); e != nil {
		t.Error(e)
	}
	b.ended("b0")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.paid) != 2 {
		t.Errorf("paid %v, want b0 and b1", b.paid)
	}
	for key, n := range b.paid {
		if n != 1 {
			t.Errorf("%s was paid %d times", key, n)
		}
	}
}

// Of many approvers who answer at the same time each is told what became of
// it: the quorum decides, the others come too late.
func TestApproversAnswerAtOnce(t *testing.T) {
	t.Parallel()
	b := askPeople(t)
	b.work(b.catalog())
	var by []string
	for i := range 20 {
		by = append(by, fmt.Sprint("u", i))
	}
	list, _ := json.Marshal(by)
	b.start("bid", "b", fmt.Sprintf(`{"by":%s,"quorum":5,"wait":"1h"}`, list))
	b.reaches("b", b.asks)
	classes := make(chan string, len(by)) // size: one each
	var wg sync.WaitGroup
	for _, who := range by {
		wg.Go(func() {
			body, _ := json.Marshal(api.ApprovalRequest{ID: "b", Verdict: statemachine.Approved})
			m, err := b.nc.Request(api.Subject("pawl", who, api.ApprovalsDecide), body, 30*time.Second)
			var e api.Error
			switch {
			case err != nil:
				classes <- err.Error()
			case m.Header.Get(api.HeaderCode) == "":
				classes <- ""
			default:
				_ = json.Unmarshal(m.Data, &e)
				classes <- e.Class
			}
		})
	}
	wg.Wait()
	close(classes)
	n := map[string]int{}
	for c := range classes {
		n[c]++
	}
	if n[""] != 5 || n[statemachine.ClassUnknownApproval]+n[api.ClassEnded] != 15 {
		t.Errorf("answered %v, want 5 taken", n)
	}
	b.ended("b")
}

// What became of an approval whose time was over is told.
func TestAnswersAfterTheDeadline(t *testing.T) {
	t.Parallel()
	b := askPeople(t)
	b.work(b.catalog())
	b.start("bid", "b", `{"by":["anna"],"quorum":1,"wait":"300ms"}`)
	r := b.reaches("b", b.asks)
	w, _ := r.Gate("")
	b.ended("b")
	e := b.ask("anna", api.ApprovalsDecide, api.ApprovalRequest{ID: "b", Approval: w.ID, Verdict: statemachine.Approved}, new(api.Told))
	if e == nil || e.Class != api.ClassEnded {
		t.Errorf("%+v", e)
	}
	var a api.Approval
	if e := b.ask("", api.ApprovalsGet, api.ApprovalQuery{ID: "b", Approval: w.ID}, &a); e != nil || a.Over == nil || a.Over.Kind != statemachine.EventDue {
		t.Errorf("what became of it: %+v, %v", a, e)
	}
}
