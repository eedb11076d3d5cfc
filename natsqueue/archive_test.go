package natsqueue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// end appends the record that ends a run.
func (f *fleet) end(run string, prev *statemachine.Stored) *statemachine.Stored {
	f.t.Helper()
	a := next(f.t, run, prev, "me")
	a.Record.Status, a.Record.To = statemachine.StatusSucceeded, "done"
	b, err := statemachine.Encode(a.Record)
	if err != nil {
		f.t.Fatal(err)
	}
	a.Bytes = b
	return f.append1(a)
}

// TestArchive buries runs on the condition that they have not moved, and
// purges them to their tombstone.
func TestArchive(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		archive := f.q.Archive()
		tomb := func(last *statemachine.Stored, by string) *statemachine.Sealed {
			t.Helper()
			s, err := statemachine.Entomb(last, statemachine.Env{Now: time.Now(), By: by})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		bury := func(s *statemachine.Sealed, life time.Duration, want bool) {
			t.Helper()
			for range 2 { // again: it is the same
				if ok, err := archive.Bury(t.Context(), s, life); ok != want || err != nil {
					t.Errorf("bury run %q = %v, %v, want %v", s.Run, ok, err, want)
				}
			}
		}
		records := func(run string) []*statemachine.Stored {
			t.Helper()
			var all []*statemachine.Stored
			for s, err := range f.q.Log.Read(t.Context(), run, 0) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
			}
			return all
		}
		for _, run := range append(oddRuns, "plain") {
			var last *statemachine.Stored
			for range 5 {
				last = f.append1(next(t, run, last, "me"))
			}
			last = f.end(run, last)
			if err := f.q.Blobs.Put(t.Context(), run, map[string][]byte{"H": {1}}); err != nil {
				t.Fatal(err)
			}
			old := *last
			last = f.end(run, last) // it moved meanwhile
			bury(tomb(&old, "late"), time.Hour, false)
			mine := tomb(last, "me")
			bury(mine, 36*time.Hour+time.Millisecond, true)
			bury(tomb(last, "another"), time.Hour, false)
			if n := len(records(run)); n != 8 {
				t.Errorf("run %q has %d records before the purge, want 8", run, n)
			}
			for range 2 {
				if err := archive.Purge(t.Context(), run); err != nil {
					t.Fatalf("purge run %q: %v", run, err)
				}
			}
			natstest.Await(t, "the tombstone alone", func() bool {
				all := records(run)
				return len(all) == 1 && all[0].Txid == mine.Txid && all[0].Tomb != nil
			})
			m, err := f.q.link.lead(t.Context(), streamHistory, map[string]any{"last_by_subj": f.q.link.subj.history(run)})
			if err != nil || m.headers().Get(headerTTL) != "129600s" {
				t.Errorf("tombstone of run %q: %+v, %v", run, m, err)
			}
			if _, err := f.q.Blobs.Get(t.Context(), run, "H"); !errors.Is(err, ErrNoBlob) {
				t.Errorf("blob of run %q after its purge: %v", run, err)
			}
			if out := f.q.Log.Append(t.Context(), []worker.Append{next(t, run, nil, "again")})[0]; out.Last == nil || out.Last.Tomb == nil {
				t.Errorf("start of run %q again = %+v, want the tombstone", run, out)
			}
		}
		if n := f.records(); n != uint64(len(oddRuns)+1) {
			t.Errorf("HISTORY holds %d records, want the tombstones alone", n)
		}
	})
}

// TestTombstonesExpire lets the broker remove what it was told to.
func TestTombstonesExpire(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		for i, life := range []time.Duration{time.Second, time.Millisecond, time.Hour} {
			run := fmt.Sprint("run ", i)
			s, err := statemachine.Entomb(f.end(run, nil), statemachine.Env{Now: time.Now(), By: "me"})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := f.q.Archive().Bury(t.Context(), s, life); !ok || err != nil {
				t.Fatalf("bury for %v: %v, %v", life, ok, err)
			}
			if err := f.q.Archive().Purge(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		natstest.Await(t, "two of three to expire", func() bool { return f.records() == 1 })
		if s := f.look("run 2"); s == nil || s.Tomb == nil {
			t.Errorf("the third = %+v", s)
		}
	})
}

func TestTTLIsInWholeSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "1s", 0: "1s", time.Millisecond: "1s", time.Second: "1s", 1999 * time.Millisecond: "1s", 400 * 24 * time.Hour: "34560000s",
	} {
		if got := ttl(d); got != want {
			t.Errorf("ttl(%v) = %s, want %s", d, got, want)
		}
	}
}

// TestTrim removes what a run that has rolled spares, and no more: the last
// record stays whatever was appended meanwhile, a start that comes again finds
// it, and a reading that meets the gap ends with an error.
func TestTrim(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		read := func(run string) (n int, err error) {
			for _, err := range f.q.Log.Read(t.Context(), run, 0) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}
		for _, run := range []string{"plain", oddRuns[0]} {
			var all []*statemachine.Stored
			var last *statemachine.Stored
			for rev := range 10 {
				a := next(t, run, last, "me")
				if rev > 6 {
					a.Record.Roll = &statemachine.Epoch{Rev: 7, Next: statemachine.Mark{Rev: 7, After: all[5].Seq}, Keep: statemachine.Mark{Rev: 4, After: all[2].Seq}}
					b, err := statemachine.Encode(a.Record)
					if err != nil {
						t.Fatal(err)
					}
					a.Bytes = b
				}
				last = f.append1(a)
				all = append(all, last)
			}
			other := f.append1(next(t, run+"2", nil, "me"))
			for i, tt := range []struct {
				r    *statemachine.Stored
				want uint64
			}{{all[5], 0}, {all[8], 3}, {last, 0}} { // one that is not the last says the same
				if n, err := f.q.Archive().Trim(t.Context(), tt.r); n != tt.want || err != nil {
					t.Errorf("%d: Trim of run %q at revision %d = %d, %v, want %d", i, run, tt.r.Rev, n, err, tt.want)
				}
			}
			natstest.Await(t, "the replicas to have removed the records", func() bool {
				n, err := read(run)
				return n == 7 && err == nil
			})
			if out := f.q.Log.Append(t.Context(), []worker.Append{next(t, run, nil, "again")})[0]; out.Last == nil || out.Last.Seq != last.Seq {
				t.Errorf("start of run %q again = %+v, want the last record", run, out)
			}
			f.append1(next(t, run, last, "me"))
			if got := f.look(run + "2"); got == nil || got.Seq != other.Seq {
				t.Errorf("run %q lost its record: %+v", run+"2", got)
			}
		}
	})
}

// TestReadingOfWhatIsRemoved ends with an error, not with less.
func TestReadingOfWhatIsRemoved(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		var last *statemachine.Stored
		for range readChunk + 10 {
			last = f.append1(next(t, "r", last, "me"))
		}
		n := 0
		for _, err := range f.q.Log.Read(t.Context(), "r", 0) {
			if err != nil {
				if !errors.Is(err, errRemoved) || n < readChunk {
					t.Errorf("after %d records: %v", n, err)
				}
				return
			}
			if n++; n == 1 {
				if err := f.q.Archive().Purge(t.Context(), "r"); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Errorf("a reading of %d records that lost some says nothing", n)
	})
}
