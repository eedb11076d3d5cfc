package natsqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// large makes the record of a run about n bytes long.
func large(t *testing.T, run string, n int) worker.Append {
	t.Helper()
	return next(t, run, nil, strings.Repeat("x", n))
}

func TestLastInBulk(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const n = 2500 // several reads
		var appends []worker.Append
		var runs []string
		for i := range n {
			run := fmt.Sprint("run ", i)
			runs = append(runs, run)
			if i%5 != 0 { // every fifth has no record
				appends = append(appends, next(t, run, nil, "me"))
			}
		}
		for some := range slices.Chunk(appends, 100) {
			for _, out := range f.q.Log.Append(t.Context(), some) {
				if out.Seq == 0 {
					t.Fatalf("append = %+v", out)
				}
			}
		}
		runs = append(runs, "run 1", "run 5") // asked twice
		// Any replica answers, and one may be a little behind.
		natstest.Await(t, "all replicas", func() bool {
			last, err := f.q.Log.Last(t.Context(), runs)
			if err != nil {
				t.Fatalf("last: %v", err)
			}
			found := 0
			for i, s := range last {
				if s == nil {
					continue
				}
				found++
				if s.Run != runs[i] || s.Seq == 0 || s.Time.IsZero() {
					t.Fatalf("last of %q = %+v", runs[i], s)
				}
			}
			return found == n/5*4+1
		})
	})
}

// TestLastBeyondOneAnswer reads more bytes than one answer holds.
func TestLastBeyondOneAnswer(t *testing.T) {
	t.Parallel()
	f := one(t)
	var runs []string
	for i := range 30 {
		runs = append(runs, fmt.Sprint("run ", i))
		f.append1(large(t, runs[i], 800<<10))
	}
	last, err := f.q.Log.Last(t.Context(), runs)
	if err != nil {
		t.Fatalf("last: %v", err)
	}
	for i, s := range last {
		if s == nil || s.Run != runs[i] || len(s.Bytes) < 800<<10 {
			t.Errorf("last of %q is missing or short", runs[i])
		}
	}
}

// TestLookAtALargeRecord reads the largest record from a leader elsewhere.
func TestLookAtALargeRecord(t *testing.T) {
	t.Parallel()
	c := natstest.Three(t)
	f := newFleet(t, c.Conn(), Topology{Replicas: 3}, brisk())
	a := large(t, "large", 900<<10)
	f.append1(a)
	for _, n := range c.Nodes {
		q := opened(t, n.Conn(), brisk())
		s, err := q.Log.Look(t.Context(), "large")
		if err != nil || s == nil || string(s.Bytes) != string(a.Bytes) {
			t.Errorf("look through %s: %v", n.Name(), err)
		}
	}
}

func TestLastWithARecordOfANewerFormat(t *testing.T) {
	t.Parallel()
	f := one(t)
	old := f.append1(next(t, "old", nil, "me"))
	m := &nats.Msg{Subject: f.q.link.subj.history("new"), Data: []byte(`{"v":99,"run":"new"}`)}
	if _, err := f.q.link.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	last, err := f.q.Log.Last(t.Context(), []string{"new", "old", "none"})
	if !errors.Is(err, statemachine.ErrFormat) {
		t.Errorf("last: %v, want ErrFormat", err)
	}
	if last[0] != nil || last[1] == nil || last[1].Seq != old.Seq || last[2] != nil {
		t.Errorf("last = %v, want only the old one", last)
	}
	if _, err := f.q.Log.Look(t.Context(), "new"); !errors.Is(err, statemachine.ErrFormat) {
		t.Errorf("look: %v, want ErrFormat", err)
	}
	if out := f.q.Log.Append(t.Context(), []worker.Append{next(t, "new", nil, "me")})[0]; !errors.Is(out.Err, statemachine.ErrFormat) {
		t.Errorf("append = %+v, want ErrFormat", out)
	}
	swept := map[string]bool{}
	for _, run := range []string{"old", "new"} {
		for s, err := range f.q.Log.Sweep(t.Context(), queue.Partition(queue.Token(run))) {
			if err == nil {
				swept[s.Run] = true
			} else if !errors.Is(err, statemachine.ErrFormat) {
				t.Errorf("sweep: %v", err)
			}
		}
	}
	if !swept["old"] || swept["new"] {
		t.Errorf("swept %v, want the old one", swept)
	}
}

func TestReadAfter(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const n = 600 // several reads
		var s *statemachine.Stored
		var seqs []uint64
		for range n {
			s = f.append1(next(t, "r", s, "me"))
			seqs = append(seqs, s.Seq)
			if len(seqs)%100 == 0 {
				f.append1(next(t, fmt.Sprint("other ", len(seqs)), nil, "me"))
			}
		}
		for _, skip := range []int{0, 1, 299, n - 1, n} {
			after := uint64(0)
			if skip > 0 {
				after = seqs[skip-1]
			}
			got := skip
			for s, err := range f.q.Log.Read(t.Context(), "r", after) {
				if err != nil {
					t.Fatalf("read after %d: %v", after, err)
				}
				if s.Seq != seqs[got] || s.Rev != uint64(got+1) {
					t.Fatalf("record %d after %d has sequence %d and revision %d", got, after, s.Seq, s.Rev)
				}
				got++
			}
			if got != n {
				t.Errorf("read after %d ended at %d, want %d", after, got, n)
			}
		}
		for s, err := range f.q.Log.Read(t.Context(), "nobody", 0) {
			t.Errorf("read of a run without records: %+v, %v", s, err)
		}
	})
}

func TestSweep(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const n = 3000
		want := map[string]uint64{}
		var appends []worker.Append
		for i := range n {
			appends = append(appends, next(t, fmt.Sprint("run-", i), nil, "me"))
		}
		for i, out := range f.q.Log.Append(t.Context(), appends) {
			if out.Seq == 0 {
				t.Fatalf("append = %+v", out)
			}
			run := appends[i].Record.Run
			want[run] = out.Seq
			if i%10 == 0 { // more than one record
				s := &statemachine.Stored{Record: appends[i].Record, Seq: out.Seq}
				want[run] = f.append1(next(t, run, s, "me")).Seq
			}
		}
		got := map[string]uint64{}
		for p := range queue.Partitions {
			for s, err := range f.q.Log.Sweep(t.Context(), p) {
				if err != nil {
					t.Fatalf("sweep %d: %v", p, err)
				}
				if queue.Partition(queue.Token(s.Run)) != p {
					t.Errorf("run %s swept in partition %d", s.Run, p)
				}
				got[s.Run] = s.Seq
			}
		}
		if len(got) != n {
			t.Errorf("swept %d runs, want %d", len(got), n)
		}
		for run, seq := range want {
			if got[run] != seq {
				t.Errorf("run %s swept at %d, want %d", run, got[run], seq)
			}
		}
		for range f.q.Log.Sweep(t.Context(), 0) {
			break
		}
	})
}

// TestSweepOfALargePartition sweeps more runs than one read may name.
func TestSweepOfALargePartition(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const n, partition = 1200, 7
		want := map[string]bool{}
		var appends []worker.Append
		for i := 0; len(appends) < n; i++ {
			run := fmt.Sprint("run-", i)
			if queue.Partition(queue.Token(run)) == partition {
				want[run] = true
				appends = append(appends, next(t, run, nil, "me"))
			}
		}
		for _, out := range f.q.Log.Append(t.Context(), appends) {
			if out.Seq == 0 {
				t.Fatalf("append = %+v", out)
			}
		}
		natstest.Await(t, "all replicas", func() bool {
			got := map[string]bool{}
			for s, err := range f.q.Log.Sweep(t.Context(), partition) {
				if err != nil {
					t.Fatalf("sweep: %v", err)
				}
				if !want[s.Run] {
					t.Fatalf("run %s swept", s.Run)
				}
				got[s.Run] = true
			}
			return len(got) == n
		})
		for range f.q.Log.Sweep(t.Context(), partition) {
			break // an early end leaves nothing behind
		}
		natstest.Await(t, "the consumers of sweeps to be gone", func() bool {
			info, err := f.q.link.streamInfo(t.Context(), streamHistory)
			return err == nil && info.State.Consumers == 0
		})
	})
}

func TestSweepRefusesWhatIsNoPartition(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, p := range []int{-1, queue.Partitions} {
		n := 0
		for _, err := range f.q.Log.Sweep(t.Context(), p) {
			if n++; err == nil {
				t.Errorf("sweep of partition %d gave a run", p)
			}
		}
		if n != 1 {
			t.Errorf("sweep of partition %d ended without an error", p)
		}
	}
}
