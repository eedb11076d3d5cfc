package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// recordResolved has the ledger say what a person says that effects with
// business keys came to, before the record that says it for the run: as with a
// handler's result, whoever asks for the key next is given that. If the record
// loses, it is the result all the same, for whoever has the effect then.
func (l *lane) recordResolved(ctx context.Context, s *slot) error {
	for _, h := range s.fold.held {
		if h.event.Kind != statemachine.EventResolve {
			continue
		}
		c, err := statemachine.ParseCommand(h.event.Kind, h.m.Body)
		if err != nil {
			continue // it was admitted
		}
		p := s.pending(c.Effect)
		if p == nil || p.Place != statemachine.Parked || p.Key == "" || asked(s.fold.sealed.Record, p.ID) {
			continue
		}
		if err := l.w.settleResolved(ctx, s.run, p, c.Result); err != nil {
			return fmt.Errorf("record what key %q came to: %w", p.Key, err)
		}
	}
	return nil
}

// settleResolved settles the entry of an effect that was given up, unless it
// has become another's.
func (w *Worker) settleResolved(ctx context.Context, run string, p *statemachine.Pending, result []byte) error {
	mine := LedgerEntry{Run: run, Effect: p.ID, Print: p.Print, State: LedgerDone, Result: result, Try: p.Try, By: w.cfg.ID}
	for {
		have, seq, err := w.ports.Ledger.Claim(ctx, p.Key, mine)
		if err != nil {
			return err
		}
		own := have.Run == run && have.Effect == p.ID
		switch {
		case have.State == LedgerDone && own:
			return nil // created just now, or by a delivery before
		case have.State == LedgerDone, !own && have.State != LedgerReleased:
			w.log.Warn("a key that a person resolved is another run's", logkey.Run, run, logkey.Effect, p.Effect, logkey.Other, have.Run)
			return nil
		}
		at, err := w.ports.Ledger.Settle(ctx, p.Key, seq, mine)
		if at != 0 || err != nil {
			return err
		}
	}
}

// asked reports whether a record still asks for an effect.
func asked(r *statemachine.Record, effect string) bool {
	return slices.ContainsFunc(r.Pending, func(p statemachine.Pending) bool { return p.ID == effect })
}
