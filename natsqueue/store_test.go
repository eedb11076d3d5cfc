package natsqueue

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/worker"
)

func TestBlobs(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		b := f.q.Blobs
		for name, n := range map[string]int{"none": 0, "one": 1, "chunk": blobChunk, "more": blobChunk + 1, "many": 5*blobChunk + 7} {
			data := make([]byte, n)
			rand.Read(data)
			for range 2 { // again: it is there
				if err := b.Put(t.Context(), "a.b", map[string][]byte{name: data}); err != nil {
					t.Fatalf("put %s: %v", name, err)
				}
			}
			// A leader that was elected this moment may not know of it yet.
			natstest.Await(t, "blob "+name, func() bool {
				got, err := b.Get(t.Context(), "a.b", name)
				if err != nil && !errors.Is(err, ErrNoBlob) || err == nil && !bytes.Equal(got, data) {
					t.Fatalf("get %s: %d bytes, %v, want %d", name, len(got), err, n)
				}
				return err == nil
			})
			if _, err := b.Get(t.Context(), "a", name); !errors.Is(err, ErrNoBlob) {
				t.Errorf("get %s of another run: %v", name, err)
			}
		}
		if err := b.Put(t.Context(), "other", map[string][]byte{"one": {1}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.PurgeRun(t.Context(), "a.b"); err != nil {
				t.Fatalf("purge: %v", err)
			}
		}
		natstest.Await(t, "the purged blob to be gone", func() bool {
			_, err := b.Get(t.Context(), "a.b", "many")
			return errors.Is(err, ErrNoBlob)
		})
		if got, err := b.Get(t.Context(), "other", "one"); err != nil || len(got) != 1 {
			t.Errorf("get of another run after the purge: %v", err)
		}
	})
}

func TestBlobsRefuseAndDetect(t *testing.T) {
	t.Parallel()
	f := one(t)
	for _, hash := range []string{"", "a.b", "*", "a b", ">"} {
		if err := f.q.Blobs.Put(t.Context(), "r", map[string][]byte{hash: {1}}); err == nil {
			t.Errorf("put took hash %q", hash)
		}
		if _, err := f.q.Blobs.Get(t.Context(), "r", hash); err == nil {
			t.Errorf("get took hash %q", hash)
		}
	}
	if err := f.q.Blobs.Put(t.Context(), "r", map[string][]byte{"h": make([]byte, mostBlob+1)}); !errors.Is(err, worker.ErrTooLarge) {
		t.Errorf("put of too much: %v", err)
	}
	data := make([]byte, 2*blobChunk)
	if err := f.q.Blobs.Put(t.Context(), "r", map[string][]byte{"h": data}); err != nil {
		t.Fatal(err)
	}
	// Another chunk in place of the second.
	if _, err := f.q.link.js.PublishMsg(t.Context(), &nats.Msg{Subject: f.q.link.subj.blob(runPart("r"), "h", 1), Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.Blobs.Get(t.Context(), "r", "h"); err == nil {
		t.Error("get of a damaged blob gave no error")
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		g := f.q.Ledger
		for _, key := range append(oddRuns, "renewal:4412:1") {
			mine := worker.LedgerEntry{Run: "r1", Effect: "E1", Print: "p", State: "claimed"}
			theirs := worker.LedgerEntry{Run: "r2", Effect: "E2", Print: "p", State: "claimed"}
			got, seq, err := g.Claim(t.Context(), key, mine)
			if err != nil || got.Run != "r1" || seq == 0 {
				t.Fatalf("claim %q = %+v, %d, %v", key, got, seq, err)
			}
			if got, at, err := g.Claim(t.Context(), key, theirs); err != nil || got.Run != "r1" || at != seq {
				t.Errorf("claim %q after another = %+v, %d, %v", key, got, at, err)
			}
			if at, err := g.Settle(t.Context(), key, seq+1, theirs); at != 0 || err != nil {
				t.Errorf("settle %q with a wrong sequence = %v, %v", key, at, err)
			}
			mine.State, mine.Result = "done", []byte(`{"id":1}`)
			for range 2 { // again: it is mine
				if at, err := g.Settle(t.Context(), key, seq, mine); at == 0 || err != nil {
					t.Errorf("settle %q = %v, %v", key, at, err)
				}
			}
			if at, err := g.Settle(t.Context(), key, seq, theirs); at != 0 || err != nil {
				t.Errorf("settle %q after another = %v, %v", key, at, err)
			}
			got, at, err := g.Claim(t.Context(), key, theirs)
			if err != nil || got.State != "done" || string(got.Result) != `{"id":1}` || at <= seq {
				t.Errorf("claim %q when done = %+v, %d, %v", key, got, at, err)
			}
		}
	})
}

// TestLedgerHoldsLargeResults has keys whose result does not fit an entry: it
// is the second run's all the same, byte for byte.
func TestLedgerHoldsLargeResults(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		g := f.q.Ledger
		random := make([]byte, mostEntryResult)
		rand.Read(random)
		results := map[string][]byte{
			"nothing":                nil,
			"null":                   []byte(`null`),
			"object":                 []byte(`{"id":1,"html":"<b>&</b> \u2028"}`),
			"blanks":                 []byte("{ \"a\": 1 }\n"),
			"no JSON":                {0, 1, 255},
			"no UTF-8":               []byte("\"\xff\""),
			"just fits":              []byte(`"` + strings.Repeat("x", mostEntryResult-2) + `"`),
			"fits as it is not JSON": random,
			"one more":               []byte(`"` + strings.Repeat("x", mostEntryResult-1) + `"`),
			"over a payload":         []byte(`"` + strings.Repeat("<", 3<<20) + `"`),
			"the most":               bytes.Repeat([]byte{7}, mostResult),
		}
		for name, result := range results {
			for how, settle := range map[string]bool{"settled": true, "claimed": false} {
				if !settle && len(result) == mostResult {
					continue // once is enough
				}
				key := name + " " + how
				done := worker.LedgerEntry{Run: "r1", Effect: "E1", Print: "p", State: "done", Result: result}
				if settle {
					_, seq, err := g.Claim(t.Context(), key, worker.LedgerEntry{Run: "r1", State: "claimed"})
					if err != nil {
						t.Fatal(err)
					}
					for range 2 { // again: it is mine
						if at, err := g.Settle(t.Context(), key, seq, done); at == 0 || err != nil {
							t.Fatalf("settle %s = %v, %v", key, at, err)
						}
					}
					other := done
					other.Result = append(bytes.Clone(result), 'x')[:min(len(result)+1, mostResult)]
					if len(result) < mostResult {
						if at, err := g.Settle(t.Context(), key, seq, other); at != 0 || err != nil {
							t.Errorf("settle %s with another result = %v, %v", key, at, err)
						}
					}
				} else if got, _, err := g.Claim(t.Context(), key, done); err != nil || !bytes.Equal(got.Result, result) {
					t.Fatalf("claim %s with a result: %d bytes, %v", key, len(got.Result), err)
				}
				got, seq, err := g.Claim(t.Context(), key, worker.LedgerEntry{Run: "r2", State: "claimed"})
				if err != nil || seq == 0 || got.Run != "r1" || got.State != "done" || !bytes.Equal(got.Result, result) {
					t.Errorf("claim %s when done = %s, %s, %d bytes, %v, want %d", key, got.Run, got.State, len(got.Result), err, len(result))
				}
			}
		}
		for stream, subject := range map[string]string{streamLedger: "pawl.ledger.*", streamBlobs: "pawl.blob.ledger.>"} {
			m, err := f.q.link.lead(t.Context(), stream, map[string]any{"last_by_subj": subject})
			if err != nil || m == nil || m.headers().Get(headerTTL) == "" {
				t.Errorf("what is in %s does not expire: %+v, %v", stream, m, err)
			}
		}
		m, err := f.q.link.lead(t.Context(), streamLedger, map[string]any{"last_by_subj": f.q.link.subj.ledger("object settled")})
		if err != nil || !bytes.Contains(m.data, results["object"]) {
			t.Errorf("entry = %s, %v, want the result in it as it is", m.data, err)
		}
	})
}

func TestLedgerRefusesAndDetects(t *testing.T) {
	t.Parallel()
	f := one(t)
	g := f.q.Ledger
	if _, _, err := g.Claim(t.Context(), "k", worker.LedgerEntry{Result: make([]byte, mostResult+1)}); !errors.Is(err, worker.ErrTooLarge) {
		t.Errorf("claim with too much: %v", err)
	}
	if _, err := g.Settle(t.Context(), "k", 1, worker.LedgerEntry{Result: make([]byte, mostResult+1)}); !errors.Is(err, worker.ErrTooLarge) {
		t.Errorf("settle with too much: %v", err)
	}
	if _, _, err := g.Claim(t.Context(), "", worker.LedgerEntry{}); err == nil {
		t.Error("claim took no key")
	}
	result := make([]byte, 2*blobChunk)
	if _, _, err := g.Claim(t.Context(), "k", worker.LedgerEntry{Run: "r1", Result: result}); err != nil {
		t.Fatal(err)
	}
	hash := resultHash(result)
	// Another's blob under this hash, whole in itself.
	if err := f.q.link.putBlob(t.Context(), ledgerPart("k"), hash, []byte("another"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if e, _, err := g.Claim(t.Context(), "k", worker.LedgerEntry{Run: "r2"}); err == nil {
		t.Errorf("claim of a key whose result is another's = %s, %d bytes", e.Run, len(e.Result))
	}
	if err := f.q.link.purge(t.Context(), ledgerPart("k")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Claim(t.Context(), "k", worker.LedgerEntry{Run: "r2"}); !errors.Is(err, ErrNoBlob) {
		t.Errorf("claim of a key whose result is gone: %v", err)
	}
	// Settled again, with the same result, it has one again.
	if err := f.q.link.putBlob(t.Context(), ledgerPart("k"), hash, result, time.Hour); err != nil {
		t.Fatal(err)
	}
	if e, _, err := g.Claim(t.Context(), "k", worker.LedgerEntry{Run: "r2"}); err != nil || !bytes.Equal(e.Result, result) {
		t.Errorf("claim of a key whose result is back: %v", err)
	}
}

func TestLedgerRace(t *testing.T) {
	t.Parallel()
	f := one(t)
	const n = 32
	got := make([]worker.LedgerEntry, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			e, _, err := f.q.Ledger.Claim(t.Context(), "key", worker.LedgerEntry{Run: fmt.Sprint(i)})
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			got[i] = e
		})
	}
	wg.Wait()
	for _, e := range got {
		if e.Run != got[0].Run {
			t.Fatalf("runs %s and %s both have the key", e.Run, got[0].Run)
		}
	}
}

func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	opts := brisk()
	opts.LedgerTTL = time.Second
	f := newFleet(t, natstest.One(t).Conn(), Topology{}, opts)
	if _, _, err := f.q.Ledger.Claim(t.Context(), "key", worker.LedgerEntry{Run: "r1"}); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the entry to expire", func() bool {
		e, _, err := f.q.Ledger.Claim(t.Context(), "key", worker.LedgerEntry{Run: "r2"})
		if err != nil {
			t.Fatal(err)
		}
		return e.Run == "r2"
	})
}

func TestMachines(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		r := f.q.Machines
		known := func(name string, version int, want bool) {
			t.Helper()
			if got, err := r.Known(t.Context(), name, version); err != nil || got != want {
				t.Errorf("known(%q, %d) = %v, %v, want %v", name, version, got, err, want)
			}
		}
		known("sink", 0, false)
		for range 2 {
			if got, err := r.Register(t.Context(), "sink", 2, "hash"); err != nil || got != "hash" {
				t.Errorf("register = %s, %v", got, err)
			}
		}
		if got, err := r.Register(t.Context(), "sink", 2, "another"); err != nil || got != "hash" {
			t.Errorf("register another = %s, %v, want what came first", got, err)
		}
		known("sink", 0, true)
		known("sink", 1, false)
		known("sink", 2, true)
		known("*", 0, false)
		known("", 0, false)
		known("sink", -1, false)
		for _, bad := range []string{"", "*", "a.b"} {
			if _, err := r.Register(t.Context(), bad, 1, "h"); err == nil {
				t.Errorf("register took %q", bad)
			}
		}
	})
}
