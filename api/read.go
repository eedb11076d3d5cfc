package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

func (s *Server) getRun(ctx context.Context, q *RunQuery) (*Run, error) {
	var f faults
	f.run(q.ID)
	if q.Items < AllItems {
		f.addf("items %d is not %d (all) or more", q.Items, AllItems)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return s.answers.runWithin(ctx, q.ID, q.Items)
}

const (
	usualRows      = 50
	usualRevisions = 100
)

func (s *Server) listRuns(ctx context.Context, q *RunsQuery) (*Listing, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	f := Filter{
		Machine: q.Machine, State: q.State, Status: q.Status, Where: q.Where,
		Since: q.Since, Until: q.Until, Approver: q.Approver, Cursor: q.Cursor, Limit: q.Limit,
	}
	for {
		l, err := s.list(ctx, f, q.Source)
		if err != nil {
			return nil, err
		}
		b, err := encode(l)
		if err != nil || len(b) <= MaxAnswer || f.Limit == 1 {
			return l, err
		}
		f.Limit = max(1, min(f.Limit, len(l.Runs))/2) // rows are short: this is rare
	}
}

// check says all that is wrong with a request, and sets its defaults.
func (q *RunsQuery) check() error {
	var f faults
	if q.Machine != "" {
		f.name("machine", q.Machine)
	}
	f.text("state", q.State, maxText)
	f.text("approver", q.Approver, maxText)
	f.text("cursor", q.Cursor, 8*maxText)
	switch q.Status {
	case "", statemachine.StatusRunning, statemachine.StatusParked, statemachine.StatusPaused,
		statemachine.StatusSucceeded, statemachine.StatusFailed, statemachine.StatusCancelled:
	default:
		f.addf("no run has the status %s", quoted(string(q.Status)))
	}
	if len(q.Where) > maxWhere {
		f.addf("where has %d fields, over %d", len(q.Where), maxWhere)
	}
	for field, value := range q.Where {
		f.text("a field of where", field, maxText)
		f.text("field "+quoted(field)+" of where", value, 4*maxText)
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		f.addf("since is not before until")
	}
	f.limit(&q.Limit, usualRows)
	switch q.Source {
	case SourceAny, SourceIndex, SourceHistory:
	default:
		f.addf("source %s is none of %q and %q", quoted(string(q.Source)), SourceIndex, SourceHistory)
	}
	return f.err()
}

// list makes a list where it is to be made. A page that follows another is made
// where that was.
func (s *Server) list(ctx context.Context, f Filter, from Source) (*Listing, error) {
	history := strings.HasPrefix(f.Cursor, historyCursor)
	if index := s.answers.Index; index != nil && from != SourceHistory && !(history && from == SourceAny) {
		l, err := index.List(ctx, f)
		if err == nil || from == SourceIndex || f.Cursor != "" || errors.Is(err, ErrCursor) || ctx.Err() != nil {
			return l, err
		}
	} else if from == SourceIndex {
		return nil, errorf(ClassUnavailable, "there is no index here")
	}
	if err := s.scans.enter(ctx); err != nil {
		return nil, err
	}
	defer s.scans.leave()
	return s.answers.Runs(ctx, f)
}

func (s *Server) history(ctx context.Context, q *HistoryQuery) (*HistoryPage, error) {
	var f faults
	f.run(q.ID)
	f.limit(&q.Limit, usualRevisions)
	if err := f.err(); err != nil {
		return nil, err
	}
	p := page[*Revision]{rows: []*Revision{}}
	out := new(HistoryPage)
	for r, err := range s.answers.Log.Read(ctx, q.ID, q.After) {
		if err != nil {
			return nil, err
		}
		more := len(p.rows) == q.Limit
		if !more {
			fits, err := p.add(RevisionOf(r))
			if err == nil && !fits && len(p.rows) == 0 {
				fits, err = p.add(&Revision{
					Revision: r.Rev, From: r.From, To: r.To, Status: r.Status, At: r.At, Error: r.Cause, Build: r.Build, By: r.By,
					Sequence: r.Seq, Epoch: r.Epoch, Rolled: r.Rolls(), Events: []Event{}, Effects: []Effect{}, Truncated: true,
				})
			}
			if err != nil {
				return nil, err
			}
			more = !fits
		}
		if more {
			out.Next = p.rows[len(p.rows)-1].Sequence
			break
		}
	}
	out.Revisions = p.rows
	if len(p.rows) == 0 {
		last, err := s.answers.Log.Look(ctx, q.ID)
		if err != nil {
			return nil, err
		}
		if last == nil {
			return nil, notFound(q.ID)
		}
	}
	return out, nil
}

func (s *Server) listMachines(ctx context.Context, _ *struct{}) (*MachineList, error) {
	if s.answers.Registry == nil {
		return nil, errorf(ClassUnavailable, "there is no registry of machines here")
	}
	all, err := s.answers.Registry.Machines(ctx)
	if err != nil {
		return nil, err
	}
	if s.answers.Counts != nil {
		// Counts are an extra: what has no index is listed all the same.
		if counts, ok, err := s.answers.Counts.Counts(ctx); err == nil && ok {
			for i := range all {
				if all[i].Runs = counts[all[i].Name]; all[i].Runs == nil {
					all[i].Runs = map[statemachine.Status]int{}
				}
			}
		}
	}
	if all == nil {
		all = []Machine{}
	}
	return &MachineList{Machines: all}, nil
}

func (s *Server) getMachine(ctx context.Context, q *MachineQuery) (*Machine, error) {
	var f faults
	f.name("machine", q.Name)
	if err := f.err(); err != nil {
		return nil, err
	}
	all, err := s.listMachines(ctx, nil)
	if err != nil {
		return nil, err
	}
	for i := range all.Machines {
		if m := &all.Machines[i]; m.Name == q.Name {
			s.answers.described(m)
			return m, nil
		}
	}
	return nil, fmt.Errorf("machine %s: %w", quoted(q.Name), ErrNotFound)
}

// letterTime is how long letters are looked through for those that are
// selected; then the page ends, full or not.
const letterTime = 2 * time.Second

func (s *Server) listLetters(ctx context.Context, q *LettersQuery) (*LetterPage, error) {
	filter := deadletter.Filter{
		Kind: q.Kind, Machine: q.Machine, State: q.State, Class: q.Class, Effect: q.Effect, Run: q.Run, Print: q.Fingerprint,
		Build: q.Build, Tenant: q.Tenant, Since: q.Since, Until: q.Until,
	}
	var f faults
	f.letters(&filter)
	f.limit(&q.Limit, usualRows)
	if err := f.err(); err != nil {
		return nil, err
	}
	began := time.Now()
	p := page[*Letter]{rows: []*Letter{}}
	out, last := new(LetterPage), q.After
	for l, err := range s.answers.Letters.Of(ctx, filter.Kind, filter.Machine, q.After) {
		if err != nil && l.Seq == 0 {
			return nil, err
		}
		// A page passes one letter at least: at its beginning, Next could not be
		// told from the end.
		if len(p.rows) == q.Limit || last > q.After && time.Since(began) > letterTime {
			out.Next = last
			break
		}
		switch {
		case err != nil:
			out.Unreadable++
		case filter.Matches(&l):
			l.Body = nil
			v := &Letter{Letter: l}
			fits, err := p.add(v)
			if err == nil && !fits && len(p.rows) == 0 {
				fits, err = p.add(v.short())
			}
			if err != nil {
				return nil, err
			}
			if !fits {
				out.Next, out.Letters = last, p.rows
				return out, nil
			}
		}
		last = l.Seq
	}
	out.Letters = p.rows
	return out, nil
}

func (s *Server) getLetter(ctx context.Context, q *LetterQuery) (*Letter, error) {
	if q.Seq == 0 {
		return nil, badf("seq is missing")
	}
	l, err := s.answers.Letter(ctx, q.Seq)
	if err != nil {
		return nil, err
	}
	b, err := encode(l)
	if err != nil || len(b) <= MaxAnswer {
		return l, err
	}
	return l.short(), nil
}

// short is the letter without what may be large.
func (l *Letter) short() *Letter {
	v := &Letter{Letter: l.Letter, Truncated: true}
	v.Headers = nil
	for _, text := range []*string{&v.ID, &v.Run, &v.State, &v.EffectID, &v.Key, &v.Class, &v.Cause, &v.Source} {
		if len(*text) > maxReason {
			*text = strings.ToValidUTF8((*text)[:maxReason], "") + "…"
		}
	}
	return v
}

func (s *Server) listStreams(ctx context.Context, _ *struct{}) (*StreamList, error) {
	if s.answers.Streams == nil {
		return nil, errorf(ClassUnavailable, "the streams cannot be looked at here")
	}
	all, err := s.answers.Streams.Streams(ctx)
	if err != nil {
		return nil, err
	}
	return &StreamList{Streams: all}, nil
}

func (s *Server) getBlob(ctx context.Context, q *BlobQuery) (*BlobPiece, error) {
	var f faults
	f.run(q.Run)
	if !hashRE.MatchString(q.Hash) {
		f.addf("hash %s is none", quoted(q.Hash))
	}
	if q.Offset < 0 {
		f.addf("offset %d is negative", q.Offset)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	b, total, err := s.answers.Blobs.Piece(ctx, q.Run, q.Hash, q.Offset, MaxPiece)
	if err != nil {
		return nil, err
	}
	if q.Offset > total {
		return nil, badf("offset %d is beyond the value's %d bytes", q.Offset, total)
	}
	return &BlobPiece{Bytes: b, Total: total}, nil
}
