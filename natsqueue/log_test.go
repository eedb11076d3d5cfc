package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// TestAppendOutcomes goes through every answer an append can have.
func TestAppendOutcomes(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		log := f.q.Log
		t.Run("the first record", func(t *testing.T) {
			a := next(t, "first", nil, "me")
			before := time.Now()
			out := log.Append(t.Context(), []worker.Append{a})[0]
			if out.Err != nil || out.Last != nil || out.Seq == 0 || out.Sent.Before(before) || out.Sent.After(time.Now()) {
				t.Fatalf("append = %+v, want committed", out)
			}
			s := f.look("first")
			if s == nil || s.Seq != out.Seq || s.Txid != a.Record.Txid || string(s.Bytes) != string(a.Bytes) || s.Time.IsZero() {
				t.Errorf("look = %+v, want what was appended", s)
			}
		})
		t.Run("the next record", func(t *testing.T) {
			s := f.append1(next(t, "second", nil, "me"))
			if n := f.append1(next(t, "second", s, "me")); n.Seq <= s.Seq {
				t.Errorf("sequence %d after %d", n.Seq, s.Seq)
			}
		})
		t.Run("the same again is mine", func(t *testing.T) {
			a := next(t, "again", nil, "me")
			s := f.append1(a)
			out := log.Append(t.Context(), []worker.Append{a})[0]
			if out.Err != nil || out.Last != nil || out.Seq != s.Seq {
				t.Errorf("append again = %+v, want committed as %d", out, s.Seq)
			}
		})
		t.Run("another's record", func(t *testing.T) {
			mine, theirs := next(t, "lost", nil, "me"), next(t, "lost", nil, "them")
			s := f.append1(theirs)
			out := log.Append(t.Context(), []worker.Append{mine})[0]
			if out.Err != nil || out.Seq != 0 || out.Last == nil || out.Last.Txid != theirs.Record.Txid || out.Last.Seq != s.Seq {
				t.Errorf("append = %+v, want lost to %s", out, theirs.Record.Txid)
			}
		})
		t.Run("a stale record", func(t *testing.T) {
			s := f.append1(next(t, "stale", nil, "me"))
			last := f.append1(next(t, "stale", s, "them"))
			out := log.Append(t.Context(), []worker.Append{next(t, "stale", s, "me")})[0]
			if out.Last == nil || out.Last.Seq != last.Seq {
				t.Errorf("append = %+v, want lost to sequence %d", out, last.Seq)
			}
		})
		t.Run("too large", func(t *testing.T) {
			a := next(t, "large", nil, "me")
			a.Bytes = make([]byte, 2<<20)
			out := log.Append(t.Context(), []worker.Append{a, next(t, "beside large", nil, "me")})
			if !errors.Is(out[0].Err, worker.ErrTooLarge) {
				t.Errorf("append = %+v, want too large", out[0])
			}
			if out[1].Seq == 0 {
				t.Errorf("append beside it = %+v, want committed", out[1])
			}
		})
		t.Run("a stale one among many", func(t *testing.T) {
			s := f.append1(next(t, "many 7", nil, "them"))
			var appends []worker.Append
			for i := range 50 {
				appends = append(appends, next(t, fmt.Sprint("many ", i), nil, "me"))
			}
			for i, out := range log.Append(t.Context(), appends) {
				if i == 7 && (out.Last == nil || out.Last.Seq != s.Seq) || i != 7 && out.Seq == 0 {
					t.Errorf("append %d = %+v", i, out)
				}
			}
		})
		t.Run("ctx ended before", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			out := log.Append(ctx, []worker.Append{next(t, "cancelled", nil, "me")})[0]
			if out.Seq == 0 && !errors.Is(out.Err, context.Canceled) {
				t.Errorf("append = %+v, want cancelled, or committed", out)
			}
		})
	})
}

// TestAppendByBatch goes through the same by atomic batches, where one record
// can spoil all.
func TestAppendByBatch(t *testing.T) {
	t.Parallel()
	by := func(t *testing.T, nc *nats.Conn, n int) {
		opts := brisk()
		opts.Group = GroupAlways
		f := newFleet(t, nc, Topology{Replicas: n}, opts)
		fill := func(name string, n int) []worker.Append {
			var all []worker.Append
			for i := range n {
				all = append(all, next(t, fmt.Sprint(name, " ", i), nil, "me"))
			}
			return all
		}
		t.Run("all well", func(t *testing.T) {
			appends := fill("well", 200)
			for i, out := range f.q.Log.Append(t.Context(), appends) {
				if out.Seq == 0 {
					t.Fatalf("append %d = %+v, want committed", i, out)
				}
				if s := f.look(appends[i].Record.Run); s.Seq != out.Seq || s.Txid != appends[i].Record.Txid {
					t.Fatalf("append %d has sequence %d, look says %d", i, out.Seq, s.Seq)
				}
			}
		})
		t.Run("more than a batch holds", func(t *testing.T) {
			for i, out := range f.q.Log.Append(t.Context(), fill("more", 2*mostBatch+1)) {
				if out.Seq == 0 {
					t.Fatalf("append %d = %+v, want committed", i, out)
				}
			}
		})
		t.Run("a stale one among many", func(t *testing.T) {
			s := f.append1(next(t, "spoilt 3", nil, "them"))
			for i, out := range f.q.Log.Append(t.Context(), fill("spoilt", 20)) {
				if i == 3 && (out.Last == nil || out.Last.Seq != s.Seq) || i != 3 && out.Seq == 0 {
					t.Errorf("append %d = %+v", i, out)
				}
			}
		})
		t.Run("mine is there already", func(t *testing.T) {
			appends := fill("mine", 20)
			s := f.append1(appends[5])
			for i, out := range f.q.Log.Append(t.Context(), appends) {
				if out.Seq == 0 || i == 5 && out.Seq != s.Seq {
					t.Errorf("append %d = %+v, want committed", i, out)
				}
			}
		})
		t.Run("one is too large", func(t *testing.T) {
			appends := fill("large", 20)
			appends[11].Bytes = make([]byte, 2<<20)
			for i, out := range f.q.Log.Append(t.Context(), appends) {
				if i == 11 && !errors.Is(out.Err, worker.ErrTooLarge) || i != 11 && out.Seq == 0 {
					t.Errorf("append %d = %+v", i, out)
				}
			}
		})
		t.Run("lanes at once", func(t *testing.T) {
			var wg sync.WaitGroup
			for lane := range 8 {
				wg.Go(func() {
					for i, out := range f.q.Log.Append(t.Context(), fill(fmt.Sprint("lane ", lane), 100)) {
						if out.Seq == 0 {
							t.Errorf("lane %d append %d = %+v", lane, i, out)
						}
					}
				})
			}
			wg.Wait()
		})
	}
	t.Run("one replica", func(t *testing.T) {
		t.Parallel()
		by(t, natstest.One(t).Conn(), 1)
	})
	t.Run("three replicas", func(t *testing.T) {
		t.Parallel()
		by(t, natstest.Three(t).Conn(), 3)
	})
}

// TestAppendRace lets 64 workers create the same run: one wins, and all others
// learn of it.
func TestAppendRace(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		const workers = 64
		out := make([]worker.Appended, workers)
		appends := make([]worker.Append, workers)
		var wg sync.WaitGroup
		for i := range workers {
			appends[i] = next(t, "race", nil, fmt.Sprint("worker ", i))
			wg.Go(func() { out[i] = f.q.Log.Append(t.Context(), appends[i:i+1])[0] })
		}
		wg.Wait()
		last := f.look("race")
		won := 0
		for i, o := range out {
			switch {
			case o.Err != nil:
				t.Errorf("worker %d: %v", i, o.Err)
			case o.Seq > 0:
				won++
				if last.Txid != appends[i].Record.Txid || last.Seq != o.Seq {
					t.Errorf("worker %d won, but the record is of %s", i, last.By)
				}
			case o.Last.Txid != last.Txid:
				t.Errorf("worker %d lost to %s, the record is of %s", i, o.Last.By, last.By)
			}
		}
		if won != 1 {
			t.Errorf("%d workers won, want 1", won)
		}
	})
}

// TestLooksTellTheBrokersTime: whoever committed a record, or has it from there,
// does not know its time, and others leave its committer alone by it. What is
// known is believed only if it is what is stored.
func TestLooksTellTheBrokersTime(t *testing.T) {
	t.Parallel()
	f := one(t)
	known := f.append1(next(t, "a", nil, "w"))
	lookAgain := func(known *statemachine.Stored) *statemachine.Stored {
		t.Helper()
		read, errs := f.q.Log.Looks(t.Context(), []worker.Look{{Run: "a", Known: known}})
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		return read[0]
	}
	if got := lookAgain(known); got.Record != known.Record || !got.Time.Equal(f.look("a").Time) || got.Time.IsZero() {
		t.Errorf("Looks = %+v, want the known record, with its time", got)
	}
	other := next(t, "a", nil, "somebody else")
	if got := lookAgain(&statemachine.Stored{Record: other.Record, Bytes: other.Bytes, Seq: known.Seq}); got.Txid != known.Txid {
		t.Errorf("Looks = the record of %s, want what is stored", got.By)
	}
}

// TestAppendWithOddIDs writes and reads runs whose ids look like something
// else, and none gets another's record.
func TestAppendWithOddIDs(t *testing.T) {
	t.Parallel()
	f := one(t)
	var appends []worker.Append
	for _, run := range oddRuns {
		appends = append(appends, next(t, run, nil, "me"))
	}
	for i, out := range f.q.Log.Append(t.Context(), appends) {
		if out.Seq == 0 {
			t.Errorf("append run %q = %+v, want committed", oddRuns[i], out)
		}
	}
	last, err := f.q.Log.Last(t.Context(), oddRuns)
	if err != nil {
		t.Fatalf("last: %v", err)
	}
	for i, run := range oddRuns {
		for what, s := range map[string]*statemachine.Stored{"last": last[i], "look": f.look(run)} {
			if s == nil || s.Run != run || s.Txid != appends[i].Record.Txid {
				t.Errorf("%s of run %q = %+v", what, run, s)
			}
		}
		n := 0
		for s, err := range f.q.Log.Read(t.Context(), run, 0) {
			if n++; err != nil || s.Run != run {
				t.Errorf("read run %q: %+v, %v", run, s, err)
			}
		}
		if n != 1 {
			t.Errorf("read run %q: %d records, want 1", run, n)
		}
	}
}

// TestAppendWithLostAnswers loses the acknowledgements of a batch, which was
// stored: each record is found to be mine.
func TestAppendWithLostAnswers(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]Group{"singles": GroupNever, "batches": GroupAlways} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := natstest.One(t)
			direct := newFleet(t, n.Conn(), Topology{}, brisk())
			proxy := natstest.NewProxy(t, n.Addr())
			nc, err := Connect(Config{URL: proxy.URL()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			opts := brisk()
			opts.Group, opts.Patience = group, time.Minute
			q := opened(t, nc, opts)

			var appends []worker.Append
			for i := range 20 {
				appends = append(appends, next(t, fmt.Sprint("run ", i), nil, "me"))
			}
			// One is another's: refused alone as a single. It would spoil a batch.
			var theirs *statemachine.Stored
			if group == GroupNever {
				theirs = direct.append1(next(t, "run 13", nil, "them"))
			}
			proxy.Deafen()
			got := make(chan []worker.Appended, 1)
			go func() { got <- q.Log.Append(t.Context(), appends) }()
			natstest.Await(t, "the records to be stored", func() bool { return direct.records() == 20 })
			proxy.Cut()
			for i, out := range <-got {
				if i == 13 && theirs != nil {
					if out.Last == nil || out.Last.Seq != theirs.Seq {
						t.Errorf("append %d = %+v, want lost", i, out)
					}
					continue
				}
				if out.Seq == 0 || direct.look(appends[i].Record.Run).Seq != out.Seq {
					t.Errorf("append %d = %+v, want committed", i, out)
				}
			}
			if n := direct.records(); n != 20 {
				t.Errorf("%d records stored, want 20", n)
			}
		})
	}
}

// records counts what HISTORY holds.
func (f *fleet) records() uint64 {
	f.t.Helper()
	info, err := f.q.link.streamInfo(f.t.Context(), streamHistory)
	if err != nil {
		f.t.Fatal(err)
	}
	return info.State.Msgs
}

// TestAppendAcrossARestart keeps appending while the server is away for a
// moment.
func TestAppendAcrossARestart(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	opts := brisk()
	opts.Patience = time.Minute
	f := newFleet(t, n.Conn(), Topology{}, opts)
	s := f.append1(next(t, "r", nil, "me"))
	n.Stop()
	a := next(t, "r", s, "me")
	got := make(chan worker.Appended, 1)
	go func() { got <- f.q.Log.Append(t.Context(), []worker.Append{a})[0] }()
	n.Start()
	if out := <-got; out.Seq == 0 {
		t.Errorf("append = %+v, want committed", out)
	}
}

func TestAppendGivesUpWithoutAServer(t *testing.T) {
	t.Parallel()
	n := natstest.One(t)
	opts := brisk()
	opts.Patience = 200 * time.Millisecond
	f := newFleet(t, n.Conn(), Topology{}, opts)
	n.Stop()
	out := f.q.Log.Append(t.Context(), []worker.Append{next(t, "r", nil, "me")})[0]
	if !errors.Is(out.Err, worker.ErrUnavailable) {
		t.Errorf("append = %+v, want unavailable", out)
	}
}

func TestAppendToAFullStream(t *testing.T) {
	t.Parallel()
	for n, nodes := range map[int]func(t *testing.T) *nats.Conn{
		1: func(t *testing.T) *nats.Conn { return natstest.One(t).Conn() },
		3: func(t *testing.T) *nats.Conn { return natstest.Three(t).Conn() },
	} {
		t.Run(fmt.Sprint(n, " replicas"), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, nodes(t), Topology{Replicas: n, Limits: Limits{HistoryBytes: 64 << 10}}, brisk())
			for i := 0; ; i++ {
				out := f.q.Log.Append(t.Context(), []worker.Append{next(t, fmt.Sprint("run ", i), nil, strings.Repeat("x", 8<<10))})[0]
				if out.Err == nil && i < 20 {
					continue
				}
				if !errors.Is(out.Err, worker.ErrUnavailable) {
					t.Fatalf("append %d to a full stream = %+v, want unavailable", i, out)
				}
				break
			}
			// It recovers as soon as there is room.
			if changes, err := Provision(t.Context(), f.nc, Topology{Replicas: n, Effects: []string{"noop", "http.post"}}); err != nil {
				t.Fatalf("provision: %v (%v)", err, changes)
			}
			f.append1(next(t, "room again", nil, "me"))
		})
	}
}

func TestAppendWithoutPermission(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "all"},
			{Username: "reader", Password: "reader", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
			}},
		}
	})
	provisioned(t, n.Conn(nats.UserInfo("all", "all")), Topology{})
	q := opened(t, n.Conn(nats.UserInfo("reader", "reader"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), brisk())
	a := next(t, "r", nil, "me")
	out := q.Log.Append(t.Context(), []worker.Append{a})[0]
	if !errors.Is(out.Err, worker.ErrUnavailable) || !strings.Contains(out.Err.Error(), "ermission") {
		t.Errorf("append = %+v, want unavailable for lack of permission", out)
	}
}

// TestAppendAcrossAnElection appends while the leader of HISTORY goes away:
// every record is committed once, whatever the answers were.
func TestAppendAcrossAnElection(t *testing.T) {
	t.Parallel()
	c := natstest.Three(t)
	opts := brisk()
	opts.Patience = time.Minute
	f := newFleet(t, c.Conn(), Topology{Replicas: 3}, opts)
	const runs, rounds = 20, 20
	last := make([]*statemachine.Stored, runs)
	for round := range rounds {
		if round == rounds/2 {
			leader := c.Leader("PAWL_HISTORY")
			if leader == nil {
				t.Fatal("HISTORY has no leader")
			}
			leader.Stop()
		}
		var appends []worker.Append
		for i := range runs {
			appends = append(appends, next(t, fmt.Sprint("run ", i), last[i], "me"))
		}
		for i, out := range f.q.Log.Append(t.Context(), appends) {
			if out.Seq == 0 {
				t.Fatalf("round %d run %d = %+v, want committed", round, i, out)
			}
			last[i] = &statemachine.Stored{Record: appends[i].Record, Seq: out.Seq}
		}
	}
	for i := range runs {
		n := uint64(0)
		for s, err := range f.q.Log.Read(t.Context(), fmt.Sprint("run ", i), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; s.Rev != n {
				t.Errorf("run %d: record %d has revision %d", i, n, s.Rev)
			}
		}
		if n != rounds {
			t.Errorf("run %d has %d records, want %d", i, n, rounds)
		}
	}
}

// TestAppendToAMissingStream tells a stream that was removed from one that is
// slow.
func TestAppendToAMissingStream(t *testing.T) {
	t.Parallel()
	opts := brisk()
	opts.Patience = 100 * time.Millisecond
	f := newFleet(t, natstest.One(t).Conn(), Topology{}, opts)
	js, err := jetstream.New(f.nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "PAWL_HISTORY"); err != nil {
		t.Fatal(err)
	}
	out := f.q.Log.Append(t.Context(), []worker.Append{next(t, "r", nil, "me")})[0]
	if !errors.Is(out.Err, worker.ErrUnavailable) || !errors.Is(out.Err, ErrMissing) {
		t.Errorf("append = %+v, want unavailable, missing", out)
	}
}
