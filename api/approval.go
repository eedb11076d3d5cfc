package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// The verbs about approvals.
const (
	ApprovalsGet      Verb = "approvals.get"      // ApprovalQuery → Approval
	ApprovalsDecide   Verb = "approvals.decide"   // ApprovalRequest → Told
	ApprovalsDelegate Verb = "approvals.delegate" // ApprovalRequest → Told
)

// Anybody stands for every approver in a filter.
const Anybody = "*"

// Approval is one that a run waits for, or waited for.
type Approval struct {
	ID       string     `json:"id"` // the run has no other with it
	Run      string     `json:"run"`
	Machine  string     `json:"machine"`
	State    string     `json:"state"`
	Visit    int        `json:"visit"`          // of the state
	Item     int        `json:"item,omitempty"` // which branch of the state asks, from 1; 0: the state does
	Since    time.Time  `json:"since"`
	Deadline *time.Time `json:"deadline,omitempty"`
	By       []string   `json:"by"`                // who may decide
	Missing  []string   `json:"missing"`           // of those, who has not answered
	Quorum   int        `json:"quorum"`            // how many have to approve
	Pinned   bool       `json:"pinned,omitempty"`  // only users count whom the server's permissions pin
	Hash     string     `json:"hash"`              // of what is shown
	Default  string     `json:"default,omitempty"` // what is decided at Deadline
	// Shown is what the approvers see; over 8 KB: {"$blob": hash, "size": bytes}.
	// Lists leave it out.
	Shown     json.RawMessage           `json:"shown,omitempty"`
	Escalates []statemachine.Level      `json:"escalates,omitempty"` // who may decide as well, later
	Answers   []statemachine.Vote       `json:"answers,omitempty"`
	Delegated []statemachine.Delegation `json:"delegated,omitempty"`
	Over      *Over                     `json:"over,omitempty"` // null while it waits
}

// Over says how a wait for an approval ended.
type Over struct {
	At   time.Time              `json:"at"`
	By   string                 `json:"by,omitempty"` // who gave the command that ended it
	Kind statemachine.EventKind `json:"kind"`         // approval: the last answer; due: its time was over; cancel …
	To   string                 `json:"to"`           // the state that followed
}

// ApprovalQuery asks for an approval of a run.
type ApprovalQuery struct {
	ID       string `json:"id"`                 // of the run
	Approval string `json:"approval,omitempty"` // may be left out where the run waits for only one
}

// ApprovalRequest says what an approver decides, or hands it on.
type ApprovalRequest struct {
	ID        string                 `json:"id"`                   // of the run
	Approval  string                 `json:"approval,omitempty"`   // may be left out where the run waits for only one
	RequestID string                 `json:"request_id,omitempty"` // the same is applied once; one is made if it is absent
	By        string                 `json:"by,omitempty"`         // who decides, recorded after Unverified; for a verified caller, the caller
	Verdict   statemachine.Verdict   `json:"verdict,omitempty"`    // decide: approve or reject
	Hash      string                 `json:"hash,omitempty"`       // decide: of what the approver was shown: what has changed since is not decided
	To        string                 `json:"to,omitempty"`         // delegate: who decides instead
	Reason    string                 `json:"reason,omitempty"`     // at most 2 KB
	Timeout   *statemachine.Duration `json:"timeout,omitempty"`    // as in StartRequest
}

// approvalsOf are the approvals that a run waits for.
func approvalsOf(r *statemachine.Record) []Approval {
	var all []Approval
	for i := range r.Waits {
		if w := &r.Waits[i]; w.Gate != nil {
			all = append(all, approvalOf(r, w))
		}
	}
	return all
}

func approvalOf(r *statemachine.Record, w *statemachine.Wait) Approval {
	g := w.Gate
	return Approval{
		ID: w.ID, Run: r.Run, Machine: r.Machine, State: r.Frames[w.Frame].State, Visit: g.Visit, Item: w.Item, Since: w.At, Deadline: r.Deadline(w),
		By: g.By, Missing: g.Missing(), Quorum: g.Quorum, Pinned: g.Pinned, Hash: g.Hash, Default: string(g.Default),
		Shown: g.Shown, Escalates: g.Escalate, Answers: g.Answers, Delegated: g.Delegated,
	}
}

// waitsFor reports whether a run waits for what an approver may decide and has
// not answered yet.
func waitsFor(r *statemachine.Record, approver string) bool {
	return slices.ContainsFunc(r.Waits, func(w statemachine.Wait) bool {
		return w.Gate != nil && (approver == Anybody || slices.Contains(w.Gate.Missing(), approver))
	})
}

// Row is the row of a run that the filter selects: with the approvals that it
// looks for.
func (f *Filter) Row(r *statemachine.Record) Row {
	row := RowOf(r)
	if f.Approver == "" {
		return row
	}
	for _, a := range approvalsOf(r) {
		if f.Approver == Anybody || slices.Contains(a.Missing, f.Approver) {
			a.Shown = nil
			row.Approvals = append(row.Approvals, a)
		}
	}
	return row
}

// Approval returns an approval of a run: one that it waits for, or, by its id,
// one that is over. ErrNotFound is returned if there is none.
func (a *Answers) Approval(ctx context.Context, run, id string) (*Approval, error) {
	r, err := a.Log.Look(ctx, run)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, notFound(run)
	}
	w, err := waiting(r.Record, id)
	if err != nil {
		return nil, err
	}
	if w != nil {
		found := approvalOf(r.Record, w)
		return &found, nil
	}
	found, err := a.over(ctx, run, id)
	if err == nil && found == nil {
		err = errorf(statemachine.ClassUnknownApproval, "run %s waits for no approval %s, and never did as far as its records tell", quoted(run), quoted(id))
	}
	return found, err
}

// waiting is the approval that a run waits for; nil if it waits for none with
// the id.
func waiting(r *statemachine.Record, id string) (*statemachine.Wait, error) {
	if w, ok := r.Gate(id); ok {
		return w, nil
	}
	if id != "" {
		return nil, nil
	}
	all := approvalsOf(r)
	if len(all) == 0 {
		return nil, errorf(statemachine.ClassUnknownApproval, "run %s waits for no approval: it is %s in state %s", quoted(r.Run), r.Status, r.To)
	}
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID+" (state "+a.State+")")
	}
	return nil, badf("run %s waits for %d approvals: name one of %s", quoted(r.Run), len(all), strings.Join(ids, ", "))
}

// over finds an approval that a run waits for no longer; nil if it never did.
func (a *Answers) over(ctx context.Context, run, id string) (*Approval, error) {
	var found *Approval
	for r, err := range a.Log.Read(ctx, run, 0) {
		if err != nil {
			return nil, err
		}
		w, ok := r.Gate(id)
		switch {
		case ok:
			now := approvalOf(r.Record, w)
			found = &now
		case found != nil && len(r.Events) > 0:
			last := r.Events[len(r.Events)-1]
			found.Over = &Over{At: r.At, Kind: last.Kind, To: r.To}
			for _, e := range r.Events {
				c, err := statemachine.ParseCommand(e.Kind, e.Body)
				if err != nil {
					continue
				}
				if e.Kind == statemachine.EventApproval && c.Approval == id && e.Cause == nil {
					found.Answers = append(slices.Clone(found.Answers), statemachine.Vote{By: c.By, Verdict: c.Verdict, At: e.At, Reason: c.Reason})
					found.Over.Kind = e.Kind
				}
				found.Over.By = c.By
			}
			return found, nil
		}
	}
	return found, nil
}

// text is how an approval ended, in words.
func (o *Over) text() string {
	how := "by " + string(o.Kind)
	switch o.Kind {
	case statemachine.EventApproval:
		how = "decided"
		if o.By != "" {
			how += ", the last answer by " + o.By
		}
	case statemachine.EventDue:
		how = "its time was over"
	case statemachine.EventCancel:
		how = "the run was cancelled"
	}
	return fmt.Sprintf("it ended at %s (%s), and the run went to state %s", o.At.UTC().Format(time.RFC3339), how, o.To)
}

func (s *Server) getApproval(ctx context.Context, q *ApprovalQuery) (*Approval, error) {
	var f faults
	f.run(q.ID)
	f.text("approval", q.Approval, maxID)
	if err := f.err(); err != nil {
		return nil, err
	}
	return s.answers.Approval(ctx, q.ID, q.Approval)
}

// decide is the action of a verb of approvers.
func (s *Server) decide(v Verb) func(context.Context, Caller, *ApprovalRequest) (*Told, error) {
	kind, what := statemachine.EventApproval, "the answer"
	if v == ApprovalsDelegate {
		kind, what = statemachine.EventDelegate, "the delegation"
	}
	return func(ctx context.Context, c Caller, q *ApprovalRequest) (*Told, error) {
		var f faults
		f.run(q.ID)
		f.id("request_id", &q.RequestID)
		cmd := statemachine.Command{By: c.recorded(q.By), Reason: q.Reason, Approval: q.Approval, Verdict: q.Verdict, Hash: q.Hash, To: q.To}
		timeout := f.timeout(q.Timeout, usualWait)
		named := cmd
		if named.Approval == "" {
			named.Approval = Anybody // which one is known once the run is looked at
		}
		f.add(named.Check(kind))
		if err := f.err(); err != nil {
			return nil, err
		}
		fits := func(r *statemachine.Stored) error {
			w, err := waiting(r.Record, cmd.Approval)
			if err != nil {
				return err
			}
			if w != nil {
				cmd.Approval = w.ID
			}
			return s.refusal(ctx, r, kind, cmd)
		}
		told, err := s.tell(ctx, timeout, message{
			run: q.ID, what: what, event: statemachine.CommandEventID(q.RequestID), fits: fits, refused: refusedBy,
			send: func(ctx context.Context) error {
				return s.answers.Sender.Command(ctx, Command{Run: q.ID, Kind: kind, ID: q.RequestID, Command: cmd})
			},
		})
		if told != nil {
			told.RequestID, told.Approval = q.RequestID, cmd.Approval
		}
		return told, err
	}
}

// refusal says why an approval would not take what is to be sent; nil if it
// would. Whether it is too late the broker's time says, when it is there.
func (s *Server) refusal(ctx context.Context, r *statemachine.Stored, kind statemachine.EventKind, c statemachine.Command) error {
	why := r.Refusal(kind, c, time.Time{})
	if why == nil {
		return nil
	}
	if why.Class == statemachine.ClassUnknownApproval {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		a, err := s.answers.over(ctx, r.Run, c.Approval)
		switch {
		case err != nil: // the less is said
		case a == nil:
			why.Message = fmt.Sprintf("the run waits for no approval %s, and never did as far as its records tell", quoted(c.Approval))
		case a.Over != nil && a.Over.Kind == statemachine.EventDue:
			why.Class, why.Message = statemachine.ClassTooLate, a.Over.text()
		case a.Over != nil:
			why.Message = a.Over.text()
		}
	}
	return refusedBy(r.Record, why)
}

// refusedBy is what a run's refusal is to who asked.
func refusedBy(r *statemachine.Record, why *statemachine.Cause) error {
	return refusedAs(CodeOf(why.Class), r, why)
}

func refusedAs(code int, r *statemachine.Record, why *statemachine.Cause) error {
	e := errorf(why.Class, "run %s: %s: %s", quoted(r.Run), why.Class, strings.TrimPrefix(why.Message, why.Class+": "))
	e.Code = code
	return e
}
