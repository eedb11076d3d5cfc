package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/queue"
)

type (
	// Letter is a dead letter.
	Letter = api.Letter
	// LettersQuery selects letters.
	LettersQuery = api.LettersQuery
	// LetterFilter selects letters that are to be changed.
	LetterFilter = deadletter.Filter
	// LettersChange says which letters are to be re-driven or discarded, and why.
	// After, Through and RequestID are the client's. Limit is of all that is
	// changed; 0: no limit.
	LettersChange = api.LettersChange
	// LettersReport says what became of letters, or would.
	LettersReport = api.LettersReport
	// LetterGroup counts letters that are alike.
	LetterGroup = api.LetterGroup
)

// Letters yields the dead letters that a query selects, oldest first, without
// their bodies, which Letter returns. Letters that cannot be read are not
// among them: they end the sequence with an error that says how many.
func (c *Client) Letters(ctx context.Context, q LettersQuery) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		unreadable := 0
		for {
			var p api.LetterPage
			if err := c.call(ctx, "list letters", api.LettersList, q, &p); err != nil {
				yield(nil, err)
				return
			}
			for _, l := range p.Letters {
				if !yield(l, nil) {
					return
				}
			}
			unreadable += p.Unreadable
			if p.Next == 0 {
				break
			}
			q.After = p.Next
		}
		if unreadable > 0 {
			yield(nil, &Error{Op: "list letters", Message: fmt.Sprintf("%d letters cannot be read", unreadable), kind: ErrInternal})
		}
	}
}

// Letter returns a dead letter with its body, by its sequence. ErrNotFound is
// returned if there is none.
func (c *Client) Letter(ctx context.Context, seq uint64) (*Letter, error) {
	var l Letter
	if err := c.call(ctx, "get letter "+strconv.FormatUint(seq, 10), api.LettersGet, api.LetterQuery{Seq: seq}, &l); err != nil {
		return nil, err
	}
	return &l, nil
}

// PlanRedrive says what Redrive would do, and does nothing.
func (c *Client) PlanRedrive(ctx context.Context, q LettersChange) (*LettersReport, error) {
	return c.letters(ctx, "plan a redrive", api.LettersPlan, q)
}

// Redrive has what was given up tried anew: an effect by its run, with all its
// attempts; a start or a signal by going back to its stream. A letter goes when
// that is durable, so a redrive that ended early may be asked for again: nothing
// is lost, or done twice. Letters whose run has moved on are refused, and so are
// those of machines that no worker has. Those that come meanwhile are left.
//
// With an error, the report is of what was done before it.
func (c *Client) Redrive(ctx context.Context, q LettersChange) (*LettersReport, error) {
	return c.letters(ctx, "redrive letters", api.LettersRedrive, q)
}

// Discard removes letters for ever, and nothing else: a run that is parked
// stays so.
func (c *Client) Discard(ctx context.Context, q LettersChange) (*LettersReport, error) {
	return c.letters(ctx, "discard letters", api.LettersDiscard, q)
}

// letters asks for a change, page by page, as one in the audit record.
func (c *Client) letters(ctx context.Context, op string, v api.Verb, q LettersChange) (*LettersReport, error) {
	if q.Limit < 0 || q.After > 0 || q.Through > 0 || q.RequestID != "" {
		return nil, invalid(op, errors.New("the Limit is below 0, or After, Through or RequestID is set"))
	}
	limit := q.Limit
	if v != api.LettersPlan {
		q.RequestID = queue.NewID()
	}
	sum := &LettersReport{Changes: map[string]*LetterGroup{}, Reasons: map[string]*LetterGroup{}, Planned: v == api.LettersPlan, RequestID: q.RequestID}
	for {
		if q.Limit = 0; len(q.Letters) == 0 {
			if q.Limit = api.MaxPage; limit > 0 {
				q.Limit = min(q.Limit, limit-sum.Changed)
			}
		}
		page := new(LettersReport)
		if err := c.page(ctx, op, v, q, page); err != nil {
			return sum, err
		}
		add(sum, page)
		if page.Next == 0 || limit > 0 && sum.Changed >= limit {
			return sum, nil
		}
		q.After, q.Through = page.Next, page.Through
	}
}

// page asks for a page, which takes longer than other answers.
func (c *Client) page(ctx context.Context, op string, v api.Verb, q LettersChange, page *LettersReport) error {
	ctx, cancel := context.WithTimeout(ctx, 4*c.timeout)
	defer cancel()
	return c.ask(ctx, op, v, q, page, 2*c.timeout, nil)
}

// add adds a page to a report.
func add(sum, page *LettersReport) {
	sum.Selected, sum.Changed, sum.Refused = sum.Selected+page.Selected, sum.Changed+page.Changed, sum.Refused+page.Refused
	count(sum.Changes, page.Changes)
	count(sum.Reasons, page.Reasons)
}

// count adds groups to others. What runs say is in the reasons, so there may be
// many of them.
func count(to, from map[string]*LetterGroup) {
	const mostGroups, mostExamples, others = 100, 5, "others"
	for what, g := range from {
		if to[what] == nil && len(to) >= mostGroups {
			what = others
		}
		if to[what] == nil {
			to[what] = new(LetterGroup)
		}
		have := to[what]
		have.Count += g.Count
		have.Examples = append(have.Examples, g.Examples...)
		have.Examples = have.Examples[:min(len(have.Examples), mostExamples)]
	}
}
