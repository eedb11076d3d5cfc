package api

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/bulk"
)

// Mailroom is where letters are changed.
type Mailroom interface {
	deadletter.Fleet
	// Newest is the sequence of the last letter there is.
	Newest(ctx context.Context) (uint64, error)
	// Note adds a line to the audit record.
	Note(ctx context.Context, e bulk.Entry) error
}

// LettersChange says which letters are to be re-driven or discarded: those that
// are named, those that a filter selects, or all there are. A page of them is
// dealt with at a time. A request that was made before finds the letters that
// it did away with gone, and goes on with the rest.
type LettersChange struct {
	Letters []uint64           `json:"letters,omitempty"` // by sequence, at most MaxPage
	Select  *deadletter.Filter `json:"select,omitempty"`
	All     bool               `json:"all,omitempty"`
	Edit    json.RawMessage    `json:"edit,omitempty"`   // plan, redrive: JSON merge patch of the inputs
	By      string             `json:"by,omitempty"`     // as in CommandRequest
	Reason  string             `json:"reason,omitempty"` // redrive, discard: needed, at most 2 KB
	// RequestID is that of the lines in the audit record, the same for all
	// pages; one is made if it is absent.
	RequestID string `json:"request_id,omitempty"`

	Limit int `json:"limit,omitempty"` // of those selected: change at most so many, at most MaxPage; default 100
	// After and Through are Next and Through of the page before.
	After   uint64 `json:"after,omitempty"`
	Through uint64 `json:"through,omitempty"`
}

// LettersReport says what became of a page of letters, or would.
type LettersReport struct {
	Selected int                     `json:"selected"`          // letters that were read
	Changed  int                     `json:"changed"`           // of them: re-driven or discarded, or would be
	Refused  int                     `json:"refused"`           // left as they are
	Changes  map[string]*LetterGroup `json:"changes"`           // of Changed, by what is done
	Reasons  map[string]*LetterGroup `json:"reasons"`           // of Refused, by why
	Planned  bool                    `json:"planned,omitempty"` // nothing was changed
	// RequestID is the id of the lines in the audit record.
	RequestID string `json:"request_id,omitempty"`
	// Next and Through are for After and Through of the next page; Next is 0 if
	// there is none. Letters that came after the first page was asked for are on
	// none.
	Next    uint64 `json:"next,omitempty"`
	Through uint64 `json:"through,omitempty"`
}

// LetterGroup counts letters that are alike.
type LetterGroup struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"` // the first few
}

const (
	usualLetters = 100
	mostExamples = 5
	changeTime   = time.Second // no letters are begun with after it
)

// change is the action of a verb about letters: the plan of a redrive, the
// redrive itself, or discarding.
func (s *Server) change(v Verb) func(context.Context, Caller, *LettersChange) (*LettersReport, error) {
	return func(ctx context.Context, c Caller, q *LettersChange) (*LettersReport, error) {
		by := c.recorded(q.By)
		if err := q.check(v, by); err != nil {
			return nil, err
		}
		room := s.answers.Mailroom
		if room == nil {
			return nil, errReadOnly()
		}
		job := &bulk.Job[*deadletter.Case]{Name: (*deadletter.Case).Name, Options: bulk.Options{Limit: q.Limit}}
		what := "redrive letters"
		if v == LettersDiscard {
			d := deadletter.Discarder{Fleet: room}
			what, job.Decide, job.Do = "discard letters", d.Decide, d.Do
		} else {
			r := deadletter.Redriver{Fleet: room, By: by, Reason: q.Reason, Edit: q.Edit}
			job.Decide, job.Do = r.Decide, r.Do
		}
		ctx, cancel := context.WithTimeout(ctx, changeTime+s.opts.Timeout)
		defer cancel()
		p := &letterPage{LettersChange: q, letters: s.answers.Letters}
		if len(q.Letters) == 0 && q.Through == 0 {
			var err error
			if q.Through, err = room.Newest(ctx); err != nil {
				return nil, err
			}
		}
		job.Items = p.cases(ctx)
		if v == LettersPlan {
			r, err := job.Plan(ctx)
			return p.report(r, err)
		}
		line := bulk.Entry{ID: q.RequestID, What: what, By: by, Reason: q.Reason}
		return p.report(audited(ctx, room, line, q, job))
	}
}

// audited carries out a job on the audit record.
func audited(ctx context.Context, room Mailroom, line bulk.Entry, q *LettersChange, job *bulk.Job[*deadletter.Case]) (*bulk.Report, error) {
	note := func(ctx context.Context, step string, with func(*bulk.Entry)) error {
		e := line
		e.Step, e.At = step, time.Now().UTC()
		with(&e)
		return room.Note(ctx, e)
	}
	asked := *q
	asked.By, asked.Reason, asked.RequestID = "", "", "" // the line has them
	selection, err := encode(asked)
	if err != nil {
		return nil, err
	}
	if err := note(ctx, bulk.StepBegin, func(e *bulk.Entry) { e.Selection = selection }); err != nil {
		return nil, err
	}
	job.Note = func(ctx context.Context, names []string) error {
		return note(ctx, bulk.StepItems, func(e *bulk.Entry) { e.Items = names })
	}
	r, err := job.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), letterTime)
	defer cancel()
	unsaid := note(last, bulk.StepEnd, func(e *bulk.Entry) {
		if e.Report = r; err != nil {
			e.Error = err.Error()
		}
	})
	if err == nil {
		err = unsaid
	}
	return r, err
}

// check says all that is wrong with a request, and sets its defaults.
func (q *LettersChange) check(v Verb, by string) error {
	var f faults
	ways := 0
	for _, named := range []bool{len(q.Letters) > 0, q.Select != nil, q.All} {
		if named {
			ways++
		}
	}
	switch {
	case ways != 1:
		f.addf("which letters? one of letters, select and all says it")
	case q.Select != nil && *q.Select == deadletter.Filter{}:
		f.addf("select selects nothing: all says that all letters are meant")
	case q.Select != nil:
		f.letters(q.Select)
	}
	switch n := len(q.Letters); {
	case n == 0:
		f.limit(&q.Limit, usualLetters)
	case n > MaxPage:
		f.addf("letters has %d sequences, over %d", n, MaxPage)
	case q.Limit != 0 || q.After > 0 || q.Through > 0:
		f.addf("limit, after and through are for letters that are selected, not named")
	}
	if len(q.Edit) > 0 && v == LettersDiscard {
		f.addf("edit is for a redrive only")
	}
	f.text("by", by, maxID)
	f.text("reason", q.Reason, maxReason)
	if v == LettersPlan {
		return f.err()
	}
	if strings.TrimSpace(q.Reason) == "" {
		f.addf("reason is missing: why is this done?")
	}
	f.id("request_id", &q.RequestID)
	return f.err()
}

// letters checks a filter of letters.
func (f *faults) letters(l *deadletter.Filter) {
	f.add(l.Validate())
	if l.Machine != "" {
		f.name("machine", l.Machine)
	}
	for _, t := range [][2]string{
		{"state", l.State}, {"class", l.Class}, {"effect", l.Effect}, {"run", l.Run}, {"fingerprint", l.Print}, {"build", l.Build}, {"tenant", l.Tenant},
	} {
		f.text(t[0], t[1], maxText)
	}
}

// letterPage is a page of the letters that a request is about.
type letterPage struct {
	*LettersChange
	letters Letters
	last    uint64   // that was passed
	more    bool     // there may be others after it
	gone    []string // that were named
}

// cases yields the letters of the page. It ends when their time is over, but
// passes one at least.
func (p *letterPage) cases(ctx context.Context) iter.Seq2[*deadletter.Case, error] {
	if len(p.Letters) > 0 {
		return p.named(ctx)
	}
	var f deadletter.Filter
	if p.Select != nil {
		f = *p.Select
	}
	return func(yield func(*deadletter.Case, error) bool) {
		began := time.Now()
		for l, err := range p.letters.Of(ctx, f.Kind, f.Machine, p.After) {
			switch {
			case err != nil && l.Seq == 0:
				yield(nil, err)
				return
			case l.Seq > p.Through:
				return
			case p.last > 0 && time.Since(began) > changeTime:
				p.more = true
				return
			}
			// One that cannot be read in full is meant if what can be is selected.
			if f.Matches(&l) && !yield(&deadletter.Case{Letter: l, Err: err}, nil) {
				p.last, p.more = l.Seq, true
				return
			}
			p.last = l.Seq
		}
	}
}

// named yields the letters that were named and are there. Others were dealt
// with before, perhaps by this very request.
func (p *letterPage) named(ctx context.Context) iter.Seq2[*deadletter.Case, error] {
	seqs := slices.Compact(slices.Sorted(slices.Values(p.Letters)))
	return func(yield func(*deadletter.Case, error) bool) {
		for _, seq := range seqs {
			l, ok, err := p.letters.Get(ctx, seq)
			switch {
			case !ok && err != nil:
				yield(nil, err)
				return
			case !ok:
				none := deadletter.Case{Letter: deadletter.Letter{Seq: seq}}
				p.gone = append(p.gone, none.Name())
				continue
			}
			if !yield(&deadletter.Case{Letter: l, Err: err}, nil) {
				return
			}
		}
	}
}

// report is the answer of what a job came to. What was changed before an error
// stays so, and is not there any more when it is asked for again.
func (p *letterPage) report(r *bulk.Report, err error) (*LettersReport, error) {
	if err != nil {
		if e := ErrorOf(err); r != nil && r.Changed > 0 && !r.Planned {
			return nil, errorf(e.Class, "%s; %d letters were changed before, and the same request goes on from there", e.Message, r.Changed)
		}
		return nil, err
	}
	a := &LettersReport{
		Selected: r.Selected, Changed: r.Changed, Refused: r.Refused, Changes: groups(r.Changes), Reasons: groups(r.Reasons), Planned: r.Planned,
		RequestID: p.RequestID, Through: p.Through,
	}
	if p.more {
		a.Next = p.last
	}
	if n := len(p.gone); n > 0 {
		a.Selected, a.Refused = a.Selected+n, a.Refused+n
		a.Reasons["there is no such letter: it was dealt with, or never was"] = &LetterGroup{n, p.gone[:min(n, mostExamples)]}
	}
	return a, nil
}

func groups(of map[string]*bulk.Group) map[string]*LetterGroup {
	all := map[string]*LetterGroup{}
	for what, g := range of {
		all[what] = &LetterGroup{g.Count, g.Examples}
	}
	return all
}
