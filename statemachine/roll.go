package statemachine

import "encoding/json"

// Epoch says where the epoch of a run began, and which of its records stay. A
// run that rolls goes on as new: the same run, with all that it has, in the
// next epoch. What it goes on from stands whole in its last record, but for
// items of logs that no chunk holds yet; so what came long before needs not
// stay.
//
//	revision  1 …            1,001 …           2,001 …
//	epoch     0              1                 2
//	          ├── removed ───┼───── stays ─────┼── under way
//	                         Keep              Next, Rev
type Epoch struct {
	Rev  uint64 `json:"rev"`           // revision of its first record
	Next Mark   `json:"next"`          // from where on records stay, once the run has rolled again
	Keep Mark   `json:"keep,omitzero"` // … and until then; zero: all stay
}

// Mark is a record of a run.
type Mark struct {
	Rev   uint64 `json:"rev"`
	After uint64 `json:"after,omitempty"` // stream sequence of the record before it, 0 if there is none
}

// Roll begins the next epoch of the run with the record that enters the state,
// and then calls over, if that is not nil; the run moves on at once. A run rolls
// by itself after 1,000 records. This is for where its author knows a better
// place, or has data to condense.
func Roll[T any](over func(*T)) Action[T] {
	return waiting[T]{&action{kind: KindRoll, take: func(data any, _ json.RawMessage) error {
		if over != nil {
			over(data.(*T))
		}
		return nil
	}}}
}

// Rolls reports whether an epoch begins with the record.
func (r *Record) Rolls() bool { return r.Roll != nil && r.Roll.Rev == r.Rev }

// Spare is the stream sequence up to which records of the run need not stay:
// they are older than the epoch before this one, at least 1,000 follow, and no
// item of a log lies in them that no chunk holds. 0: all stay.
func (r *Record) Spare() uint64 {
	if r.Roll == nil {
		return 0
	}
	upto := r.Roll.Keep.After
	for _, ref := range r.Logs {
		if ref.Sealed < ref.Count {
			upto = min(upto, ref.After)
		}
	}
	return upto
}

// NeedsSeal reports whether the items of a log that lie in single records are
// to be moved into a chunk, see [Fold.SealLog]: since they are many, or would
// keep records from being removed.
func (r *Record) NeedsSeal(log string) bool {
	ref := r.Logs[log]
	return ref.Count-ref.Sealed >= sealItems || ref.Bytes >= sealBytes ||
		r.Roll != nil && ref.Sealed < ref.Count && ref.After < r.Roll.Next.After
}

// epoch is where the epoch began.
func (f *Fold) epoch() Epoch {
	if f.rec.Roll == nil {
		return Epoch{Rev: 1, Next: Mark{Rev: 1}}
	}
	return *f.rec.Roll
}

// isLong reports whether the run is to roll by itself with this record.
func (f *Fold) isLong() bool { return f.rec.Rev-f.epoch().Rev >= f.turns && !f.rec.Status.Ended() }

// roll begins the next epoch with this record, if it does not yet.
func (f *Fold) roll() {
	r := &f.rec
	if r.Rolls() {
		return
	}
	e := f.epoch()
	e.Rev = r.Rev
	if r.Rev-e.Next.Rev >= MaxEpoch {
		e.Keep, e.Next = e.Next, Mark{Rev: r.Rev, After: r.Prev}
	}
	r.Epoch, r.Roll = r.Epoch+1, &e
}
