package statemachine

import (
	"fmt"
	"time"
)

// TombstoneFor is how long after the end of a run its tombstone stays: so long
// the same start is known as a duplicate, and another one as a conflict.
const TombstoneFor = 30 * 24 * time.Hour

// Entomb makes the record that stands for a run that has ended once its
// records are gone.
func Entomb(last *Stored, env Env) (*Sealed, error) {
	if !last.Status.Ended() || last.Tomb != nil {
		return nil, fmt.Errorf("entomb run %q: it is %s at revision %d", last.Run, last.Status, last.Rev)
	}
	at := later(last.At, utc(env.Now))
	r := Record{
		V: 1, Run: last.Run, Machine: last.Machine, Version: last.Version, Def: last.Def, Schema: last.Schema, Epoch: last.Epoch,
		Rev: last.Rev + 1, Prev: last.Seq, PrevTxid: last.Txid, At: at, Started: last.Started, Build: env.Build, By: env.By,
		Events: []Event{}, From: last.To, To: last.To, Status: last.Status, Frames: []Frame{}, Index: last.Index, Cause: last.Cause, Input: last.Input, Parent: last.Parent, Roll: last.Roll,
		Tomb: &Tombstone{Revs: last.Rev, At: at},
	}
	r.V = r.version()
	b, err := Encode(&r)
	if err != nil {
		return nil, err
	}
	return &Sealed{Stored: Stored{Record: &r, Bytes: b}}, nil
}

func readTomb(p *scan) *Tombstone {
	t := new(Tombstone)
	p.open('{')
	if p.field("revs") {
		t.Revs = p.uint()
	}
	if p.field("at") {
		t.At = p.time()
	}
	p.end('}')
	return t
}
