package worker

import (
	"context"

	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/statemachine"
)

// definition returns the machine that the run, or the start whose turn it is,
// needs. If this worker lacks it, the messages go to those who have it, but for
// a cancel.
func (l *lane) definition(ctx context.Context, s *slot) *statemachine.Definition {
	if s.strange == nil && s.state != nil && (s.state.Status.Ended() || s.state.Tomb != nil) {
		// What has ended is judged without its machine: nothing moves it.
		return &statemachine.Definition{Name: s.state.Machine, Version: s.state.Version}
	}
	name, version, hash := "", 0, ""
	if s.state != nil {
		name, version, hash = s.state.Machine, s.state.Version, s.state.Def
	} else if h := s.nextStart(); h != nil {
		name, version = h.m.Machine, h.m.Version
	}
	if def, ok := l.w.catalog.Definition(name, version); ok && s.strange == nil && (hash == "" || hash == def.Hash) {
		return def
	}
	switch {
	case s.assumed: // a verdict needs a state that was read
		s.history, s.again = true, true
	case s.strange != nil:
		l.leave(ctx, s)
	case name == "":
		l.orphans(ctx, s) // messages for a run that does not exist
	case s.state == nil:
		l.strangeStart(ctx, s, name, version)
	case l.cancelled(ctx, s):
	default:
		for _, h := range s.held {
			if !h.spent {
				l.stranger(ctx, s, h, name, version)
			}
		}
	}
	return nil
}

// cancelled folds a cancel that is in hand into a record of its own: a cancel
// calls nothing of the machine, so any worker can apply it, even to a run of a
// machine that nobody has any more. It reports whether there is one.
func (l *lane) cancelled(ctx context.Context, s *slot) bool {
	for _, h := range s.held {
		if h.spent || h.event == nil || h.event.Kind != statemachine.EventCancel && h.event.Kind != statemachine.EventTerminate {
			continue
		}
		bare := &statemachine.Definition{Name: s.state.Machine, Version: s.state.Version, Hash: s.state.Def}
		f, out := bare.Begin(s.run, s.state, l.env(s, nil)), &folded{}
		l.foldMessage(ctx, s, f, out, h, bare.Name, true)
		switch {
		case out.events() > 0:
			out.more = true // what else is in hand comes to a run that has ended
			l.sealFold(ctx, s, bare, f, out)
		case h.spent: // refused
			s.again = true
		}
		return true
	}
	return false
}

// strangeStart deals with the starts of a machine that this worker lacks; what
// else is in hand is dealt with in another round.
func (l *lane) strangeStart(ctx context.Context, s *slot, name string, version int) {
	for _, h := range s.held {
		if h.spent || !h.begins() || h.m.Machine != name || h.m.Version != version {
			continue
		}
		if l.stranger(ctx, s, h, name, version); !h.spent {
			return // it could not be stored; all wait
		}
	}
	for _, h := range s.held {
		s.again = s.again || !h.spent
	}
}

// leave hands everything of a run whose record this build cannot read to
// others. Results in hand are lost with it: their claims run out, and whoever
// can read the run performs the effects again under the same keys.
func (l *lane) leave(ctx context.Context, s *slot) {
	l.log.Error("left a run alone", logkey.Run, s.run, logkey.Error, s.strange)
	s.results = nil
	for _, h := range s.held {
		if !h.spent {
			l.postpone(ctx, s, h)
		}
	}
}

// ahead deals with a run of which its copy knows more than HISTORY: a deposed
// leader answered, or the stream is not the one the copy is of. Nothing is
// decided on either; what is in hand comes again.
func (l *lane) ahead(ctx context.Context, s *slot) {
	l.log.Error("a copy is ahead of its run's history", logkey.Run, s.run)
	s.behind = false
	for _, h := range s.held {
		if !h.spent {
			l.postpone(ctx, s, h)
		}
	}
	if len(s.results) > 0 {
		s.history = true
		l.later(s, l.w.cfg.beat())
	}
}
