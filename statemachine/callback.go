package statemachine

import (
	"encoding/json"
	"slices"
)

// ClassAccepted is the class of a try whose handler said Accepted: what came of
// it is told later. Such an effect waits as for its next try, until its
// deadline; see Pending.Accepted.
const ClassAccepted = "accepted"

// Accepted says that somebody has taken the effect on, and will tell what came of
// it by a callback, with the Token of the Attempt. The effect then holds no
// message and no handler. If nothing is said by the deadline that the Policy
// sets, the attempt has failed, with ClassTimeout.
//
// An effect with a business key cannot be accepted.
func Accepted() error {
	return &handlerError{class: ClassAccepted, accepted: true, err: orClass(nil, ClassAccepted)}
}

// IsAccepted reports whether somebody has taken the effect on.
func IsAccepted(err error) bool {
	h := find(err, (*handlerError).decides)
	return h != nil && h.accepted
}

// Accepted reports whether somebody has taken the effect on, and a callback is
// waited for until RetryAt. Its Try is then one more than the one that was
// accepted: that of the wait.
func (p *Pending) Accepted() bool {
	return p.Place == Retry && p.RetryAt != nil && p.Cause != nil && p.Cause.Class == ClassAccepted
}

// Awaits says what a callback of a try of an effect would be to the run:
// Applied, Duplicate, Ended, or Stale if it is waited for no more. One that is
// there before it is recorded that the try was accepted is taken, too.
func (r *Record) Awaits(effect string, try int) Outcome {
	if slices.Contains(r.Applied, CallbackEventID(effect, try)) {
		return Duplicate
	}
	if r.Status.Ended() {
		return Ended
	}
	for i := range r.Pending {
		p := &r.Pending[i]
		if p.ID != effect {
			continue
		}
		if p.Place == Retry && p.Try == try+1 || p.Place != Retry && p.Place != Parked && p.Try == try {
			return Applied
		}
	}
	return Stale
}

// callback takes what came of a try that was accepted.
func (f *Fold) callback(e *Event, body json.RawMessage) error {
	f.remember(e.ID)
	if e.Cause != nil {
		return f.failure(e)
	}
	return f.answer(e, e.Effect, body)
}

// prolong moves the end of a wait. The effect stays in its place, since when it
// has that counts.
func (f *Fold) prolong(e *Event) {
	f.rec.Pending = slices.Clone(f.rec.Pending)
	p := f.pending(e.Effect)
	p.RetryAt = e.RetryAt
	f.emit(Entry{Kind: EntryTimer, ID: p.ID, Effect: p.Effect, Try: p.Try, Due: e.RetryAt})
}
