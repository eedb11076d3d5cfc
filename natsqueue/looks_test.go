package natsqueue

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// TestLooksAreWhatWasJustAppended: a look never answers less than what was
// acknowledged, at one replica (where any server that answers is the leader)
// and at three (where only the leader may), and not with a mirror beside them
// that answers direct reads, too.
func TestLooksAreWhatWasJustAppended(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		info, err := f.q.link.streamInfo(t.Context(), streamHistory)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.q.link.alone.Load(), info.Config.Replicas == 1; got != want {
			t.Fatalf("alone is %v with %d replicas", got, info.Config.Replicas)
		}
		_, err = f.q.link.js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "BACKUP", Mirror: &jetstream.StreamSource{Name: info.Config.Name}, MirrorDirect: true, AllowDirect: true,
		})
		if err != nil {
			t.Fatalf("create mirror: %v", err)
		}
		const runs = 20
		last := make([]*statemachine.Stored, runs)
		for round := range 30 {
			appends := make([]worker.Append, runs)
			for i := range appends {
				appends[i] = next(t, fmt.Sprint("run-", i), last[i], "me")
			}
			looks := []worker.Look{{Run: "nobody"}}
			for i, out := range f.q.Log.Append(t.Context(), appends) {
				if out.Seq == 0 {
					t.Fatalf("append = %+v", out)
				}
				known := last[i] // the one before
				last[i] = &statemachine.Stored{Record: appends[i].Record, Seq: out.Seq, Bytes: appends[i].Bytes}
				if i%2 == 0 {
					known = last[i]
				}
				looks = append(looks, worker.Look{Run: appends[i].Record.Run, Known: known})
			}
			read, errs := f.q.Log.Looks(t.Context(), looks)
			for run, want := range map[string]uint64{"nobody": 0, "run-0": uint64(round) + 1} {
				if n, err := f.q.Log.Records(t.Context(), run); n != want || err != nil {
					t.Fatalf("round %d: %s has %d records, %v, want %d", round, run, n, err, want)
				}
			}
			if read[0] != nil || errs[0] != nil {
				t.Fatalf("a run without records = %+v, %v", read[0], errs[0])
			}
			for i, want := range last {
				got := read[i+1]
				if errs[i+1] != nil || got == nil || got.Seq != want.Seq || got.Txid != want.Txid {
					t.Fatalf("round %d: look at %s = %+v, %v, want sequence %d", round, want.Run, got, errs[i+1], want.Seq)
				}
				if (got.Record == want.Record) != (i%2 == 0) {
					t.Fatalf("round %d: the record that was known is the answer: %v, at %d", round, got.Record == want.Record, i)
				}
			}
		}
	})
}

// TestMoreReplicasAreNoticed: once HISTORY has more than one replica, looks
// go to the leader alone.
func TestMoreReplicasAreNoticed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, natstest.Three(t).Conn(), Topology{Replicas: 3}, brisk())
	set := func(n int) {
		s, err := f.q.link.js.Stream(t.Context(), f.q.link.subj.stream(streamHistory))
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		c.Replicas = n
		if _, err := f.q.link.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatalf("update to %d replicas: %v", n, err)
		}
		if _, err := f.q.CurrentIncarnation(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	if !f.q.link.alone.Load() {
		t.Error("one replica is not noticed")
	}
	set(3)
	if f.q.link.alone.Load() {
		t.Error("three replicas are not noticed")
	}
}
