package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// TestLossesNeverLie does saves and losses in any order. Whatever is gone, a
// copy is a record that was saved and the newest since the last loss, a tail
// has the right items, at most one owner holds a claim.
func TestLossesNeverLie(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Mini)
	client := server.Client(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := open(t, client, Options{Incarnation: fmt.Sprint(n)})
		m := model{t: t, rt: rt, s: s, records: make(map[uint64]*statemachine.Stored)}
		rt.Repeat(map[string]func(*rapid.T){
			"save":   func(rt *rapid.T) { m.save(rapid.IntRange(0, 3).Draw(rt, "behind")) },
			"commit": func(rt *rapid.T) { m.commit(rapid.IntRange(0, 3).Draw(rt, "items"), rapid.Bool().Draw(rt, "seal")) },
			"claim":  func(rt *rapid.T) { m.claim(rapid.SampledFrom([]string{"v", "w"}).Draw(rt, "owner")) },
			"lose": func(rt *rapid.T) {
				p, _ := locate("a")
				key := rapid.SampledFrom([]string{s.keys.run(p.partition, "a"), s.keys.log(p.partition, "a", "l"), s.keys.index(p.partition)}).Draw(rt, "key")
				if do(t, client.Del(t.Context(), key)); strings.Contains(key, ":run:") {
					m.seen, m.holder = 0, ""
				}
			},
			"": func(*rapid.T) { m.check() },
		})
	})
}

// model is what HISTORY knows of run "a", and what Redis may know.
type model struct {
	t       *testing.T
	rt      *rapid.T
	s       *Store
	records map[uint64]*statemachine.Stored
	last    uint64
	count   int
	sealed  int
	seen    uint64 // the newest saved since the hash was lost
	holder  string
}

func (m *model) commit(items int, seal bool) {
	adds := make([]string, items)
	for i := range adds {
		adds[i] = fmt.Sprint(m.count + i)
	}
	if seal {
		m.sealed = m.count
	}
	m.count += items
	m.last++
	m.records[m.last] = storetest.Stored(m.t, "a", m.last, storetest.Adding("l", m.count, m.sealed, adds...), withIndex("n", fmt.Sprint(m.last%3)))
}

// save saves the last record or one before it, claiming an effect.
func (m *model) save(behind int) {
	st := m.records[m.last-min(m.last, uint64(behind))]
	if st == nil {
		return
	}
	got, err := m.s.Save(m.t.Context(), []worker.Save{{Stored: st, Claim: []string{"e"}, Owner: "w", Lease: time.Minute}})
	if err != nil {
		m.rt.Fatalf("Save: %v", err)
	}
	want := uint64(0)
	if st.Seq < m.seen {
		want = m.seen
	}
	if got[0].Newer != want {
		m.rt.Fatalf("saving %d over %d: Newer = %d, want %d", st.Seq, m.seen, got[0].Newer, want)
	}
	m.seen = max(m.seen, st.Seq)
	if got[0].Granted[0] {
		m.granted("w")
	}
}

func (m *model) claim(owner string) {
	got, err := m.s.Claim(m.t.Context(), []worker.Claim{{Run: "a", Effect: "e", Owner: owner, Lease: time.Minute}})
	if err != nil {
		m.rt.Fatalf("Claim: %v", err)
	}
	if got[0].OK {
		m.granted(owner)
	}
}

func (m *model) granted(owner string) {
	if m.holder != "" && m.holder != owner {
		m.rt.Fatalf("%s was granted what %s holds", owner, m.holder)
	}
	m.holder = owner
}

func (m *model) check() {
	copies, err := m.s.Load(m.t.Context(), []string{"a"})
	if err != nil {
		m.rt.Fatalf("Load: %v", err)
	}
	if got := copies[0]; (got == nil) != (m.seen == 0) || got != nil && (got.Seq != m.seen || got.Txid != m.records[m.seen].Txid) {
		m.rt.Fatalf("Load = %v, want %d", got, m.seen)
	}
	for _, from := range []int{0, m.sealed, m.count - 1} {
		if from < 0 || from > m.count {
			continue
		}
		items, ok, err := m.s.Tail(m.t.Context(), "a", "l", from, m.count)
		if err != nil {
			m.rt.Fatalf("Tail: %v", err)
		}
		for i := range items {
			if ok && string(items[i]) != fmt.Sprint(from+i) {
				m.rt.Fatalf("Tail(%d, %d) = %s", from, m.count, items)
			}
		}
	}
}
