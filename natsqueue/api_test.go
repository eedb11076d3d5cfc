package natsqueue

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// A blob is read in pieces that need not end where its chunks do.
func TestBlobInPieces(t *testing.T) {
	t.Parallel()
	f := one(t)
	big := bytes.Repeat([]byte("0123456789"), 150_000) // three chunks
	for hash, want := range map[string][]byte{"big": big, "empty": {}, "chunk": big[:blobChunk], "small": big[:7]} {
		if err := f.q.Blobs.Put(t.Context(), "run", map[string][]byte{hash: want}); err != nil {
			t.Fatal(err)
		}
		for _, most := range []int{3, 100_000, blobChunk, 700_000, len(big) + 1} {
			for _, at := range []int{0, 5, blobChunk - 2, blobChunk, 2*blobChunk + 1, len(want), len(want) + 1, 1 << 30} {
				got, total, err := f.q.Blobs.Piece(t.Context(), "run", hash, int64(at), most)
				from := min(at, len(want))
				if piece := want[from:min(from+most, len(want))]; err != nil || total != int64(len(want)) || !bytes.Equal(got, piece) {
					t.Errorf("%s: %d bytes from %d: %d of %d, %v, want %d of %d", hash, most, at, len(got), total, err, len(piece), len(want))
				}
			}
		}
	}
	if _, _, err := f.q.Blobs.Piece(t.Context(), "run", "none", 700_000, 1); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("a piece of nothing: %v, want not found", err)
	}
}

// The letter of a start is found by the sequence of its message, whatever else
// there is, and not once it was removed.
func TestLetterOfAStart(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		letter := func(kind queue.Kind, machine string, seq uint64) deadletter.Letter {
			return deadletter.Letter{
				ID: queue.LetterID(kind, seq), Kind: deadletter.Kind(kind), Machine: machine,
				Source: f.q.link.subj.start(machine), SrcSeq: seq, Body: []byte(strings.Repeat("x", 600<<10)),
			}
		}
		for _, l := range []deadletter.Letter{letter(queue.Start, "sink", 3), letter(queue.Start, "other", 4), letter(queue.Start, "sink", 5)} {
			for range 2 {
				if err := f.q.Source.DeadLetter(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
		}
		for seq := range uint64(7) {
			l, ok, err := f.q.Letters.OfStart(t.Context(), "sink", seq)
			if want := seq == 3 || seq == 5; err != nil || ok != want || ok && (l.SrcSeq != seq || len(l.Body) != 600<<10) {
				t.Errorf("letter of start %d = %v, %v, want %v", seq, ok, err, want)
			}
		}
		l, _, _ := f.q.Letters.OfStart(t.Context(), "sink", 3)
		if err := f.q.Letters.Remove(t.Context(), l.Seq); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := f.q.Letters.OfStart(t.Context(), "sink", 3); ok || err != nil {
			t.Errorf("a letter that was removed = %v, %v", ok, err)
		}
	})
}

// A bell rings for each record of its run and for no other, with batches and
// without, whatever the run is called, until it is silenced.
func TestBellRings(t *testing.T) {
	t.Parallel()
	for _, group := range []Group{GroupAlways, GroupNever} {
		opts := brisk()
		opts.Group = group
		f := newFleet(t, natstest.One(t).Conn(), Topology{}, opts)
		for _, run := range append(oddRuns, "plain") {
			rung := make(chan statemachine.Status, 10)
			silence, err := f.q.Log.Bell(run, func(s statemachine.Status) { rung <- s })
			if err != nil {
				t.Fatal(err)
			}
			f.append1(next(t, run+"x", nil, "me"))
			first := f.append1(next(t, run, nil, "me"))
			second := next(t, run, first, "me")
			f.append1(second)
			for range 2 {
				if s := <-rung; s != second.Record.Status {
					t.Errorf("the bell of %q rang for %q, want %q", run, s, second.Record.Status)
				}
			}
			silence()
			f.append1(next(t, run, f.look(run), "me"))
			if err := f.nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if n := len(rung); n != 0 {
				t.Errorf("the bell of %q rang %d times more", run, n)
			}
		}
	}
}

// Who may not listen to records is told so, and looks at runs instead.
func TestBellThatMayNotListen(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "worker", Password: "worker", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}},
		}
	})
	provisioned(t, n.Conn(nats.UserInfo("admin", "admin")), Topology{})
	nc, err := Connect(Config{URL: n.URL(), User: "worker", Password: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	q := opened(t, nc, brisk())
	for range 2 {
		if _, err := q.Log.Bell("run", func(statemachine.Status) {}); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("bell = %v, want a permission violation", err)
		}
	}
	q = opened(t, n.Conn(nats.UserInfo("admin", "admin")), brisk())
	if _, err := q.Log.Bell("run", func(statemachine.Status) {}); err != nil {
		t.Errorf("bell of who may = %v", err)
	}
}

// Whether records may be listened to is found out when the connection works: it
// was down when it was asked for the first time.
func TestBellIsTriedAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "worker", Password: "worker", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}},
		}
	})
	provisioned(t, n.Conn(nats.UserInfo("admin", "admin")), Topology{})
	proxy := natstest.NewProxy(t, n.Addr())
	nc, err := Connect(Config{URL: proxy.URL(), User: "worker", Password: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	q := opened(t, nc, brisk())
	proxy.Deafen()
	silence, err := q.Log.Bell("run", func(statemachine.Status) {})
	if err != nil {
		t.Fatalf("bell while the server does not answer = %v", err)
	}
	silence()
	proxy.Cut()
	natstest.Await(t, "a bell that is refused", func() bool {
		silence, err := q.Log.Bell("run", func(statemachine.Status) {})
		if err == nil {
			silence()
		}
		return errors.Is(err, nats.ErrPermissionViolation)
	})
}

func TestMachinesAreListed(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, m := range []struct {
		name    string
		version int
	}{{"b", 2}, {"a", 10}, {"b", 1}, {"a", 9}} {
		if _, err := f.q.Machines.Register(t.Context(), m.name, m.version, "hash of "+m.name); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.q.Machines.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		for k := range all[i].Versions {
			if all[i].Versions[k].Registered.IsZero() {
				t.Error("a machine was registered at no time")
			}
			all[i].Versions[k].Registered = all[0].Versions[0].Registered
		}
	}
	at := all[0].Versions[0].Registered
	want := []api.Machine{
		{Name: "a", Versions: []api.MachineVersion{{Version: 9, Hash: "hash of a", Registered: at}, {Version: 10, Hash: "hash of a", Registered: at}}},
		{Name: "b", Versions: []api.MachineVersion{{Version: 1, Hash: "hash of b", Registered: at}, {Version: 2, Hash: "hash of b", Registered: at}}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("machines differ (-want +got):\n%s", diff)
	}
}

// Streams are described with their consumers and their leader, and one that is
// missing is said to be.
func TestStreamsAreDescribed(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		f.append1(next(t, "run", nil, "me"))
		if _, err := f.q.Sender.Start(t.Context(), api.Start{Machine: "sink", Run: "r", Input: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if err := f.q.link.js.DeleteStream(t.Context(), "PAWL_LEDGER"); err != nil {
			t.Fatal(err)
		}
		all, err := f.q.Streams(t.Context())
		if err != nil || len(all) != len(streamNames) {
			t.Fatalf("streams = %d, %v, want %d", len(all), err, len(streamNames))
		}
		cluster := f.look("run") != nil && all[0].Replicas == 3
		for _, s := range all {
			if s.Missing != (s.Name == "PAWL_LEDGER") {
				t.Errorf("%s: missing %v", s.Name, s.Missing)
			}
			if cluster && !s.Missing && s.Leader == "" {
				t.Errorf("%s has no leader", s.Name)
			}
			switch s.Name {
			case "PAWL_HISTORY":
				if s.Messages != 1 || s.Bytes == 0 || s.LastSeq != 1 || s.MaxBytes != -1 {
					t.Errorf("history = %+v", s)
				}
			case "PAWL_START":
				want := []api.StreamConsumer{{Name: "start", Lag: 1}}
				for _, l := range queue.Lines() {
					want = append(want, api.StreamConsumer{Name: l.Consumer()})
				}
				byName := cmpopts.SortSlices(func(a, b api.StreamConsumer) bool { return a.Name < b.Name })
				if diff := cmp.Diff(want, s.Consumers, byName); diff != "" || s.MaxMessages != 1_000_000 {
					t.Errorf("start = %+v (-want +got):\n%s", s, diff)
				}
			}
		}
	})
}
