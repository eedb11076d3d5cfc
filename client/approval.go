package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

type (
	// Approval is what a run asks people, or asked.
	Approval = api.Approval
	// Verdict is what an approver says: Approve or Reject.
	Verdict = statemachine.Verdict
)

// The verdicts.
const (
	Approve = statemachine.Approved
	Reject  = statemachine.Rejected
)

// Anybody stands for every approver.
const Anybody = api.Anybody

// Approvals yields what runs ask an approver who has not answered yet, or, of
// Anybody, all that is asked: the runs that moved last first. What is shown is
// left out; [Client.Approval] has it.
func (c *Client) Approvals(ctx context.Context, approver string) iter.Seq2[*Approval, error] {
	return func(yield func(*Approval, error) bool) {
		for page, err := range c.List(ctx, Query{Approver: approver}) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Runs {
				for n := range page.Runs[i].Approvals {
					if !yield(&page.Runs[i].Approvals[n], nil) {
						return
					}
				}
			}
		}
	}
}

// Approval returns what a run asks. The id of the approval may be "" where the
// run waits for only one; by its id, one that is over is found as well.
// ErrNotFound is returned if there is none.
func (c *Client) Approval(ctx context.Context, run, approval string) (*Approval, error) {
	var a Approval
	if err := c.call(ctx, "approval of run "+run, api.ApprovalsGet, api.ApprovalQuery{ID: run, Approval: approval}, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// DecisionOptions are what an approver may say besides their verdict.
type DecisionOptions struct {
	Approval  string // its id; may be left out where the run waits for only one
	Hash      string // of what the approver was shown: nothing else is decided
	RequestID string // the same is applied once; default: one is made
	By        string // who decides, recorded as "unverified:<By>"; with WithUser the user does, plain
	Reason    string // why, at most 2 KB
}

// Decide says what an approver decides. ErrDenied is returned to who may not,
// ErrConflict where they have answered already, the time is over or something
// else is shown by now, ErrNotFound where the run asks no such thing (any more).
func (c *Client) Decide(ctx context.Context, run string, v Verdict, o DecisionOptions) (Told, error) {
	return c.approval(ctx, fmt.Sprintf("%s for run %s", v, run), api.ApprovalsDecide, run, api.ApprovalRequest{Verdict: v, Hash: o.Hash}, o)
}

// Delegate has somebody else decide in an approver's place.
func (c *Client) Delegate(ctx context.Context, run, to string, o DecisionOptions) (Told, error) {
	return c.approval(ctx, "delegate for run "+run, api.ApprovalsDelegate, run, api.ApprovalRequest{To: to}, o)
}

func (c *Client) approval(ctx context.Context, op string, v api.Verb, run string, r api.ApprovalRequest, o DecisionOptions) (Told, error) {
	if err := queue.CheckRun(run); err != nil {
		return Told{}, invalid(op, err)
	}
	if o.RequestID == "" {
		o.RequestID = queue.NewID()
	}
	r.ID, r.Approval, r.RequestID, r.By, r.Reason, r.Timeout = run, o.Approval, o.RequestID, o.By, o.Reason, c.patience()
	var t Told
	return t, c.call(ctx, op, v, r, &t)
}
