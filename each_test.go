package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/statemachine"
)

// pages is the data of a run that does one thing for each of many.
type pages struct {
	N     int                      `json:"n"`
	Said  statemachine.Log[string] `json:"said"`
	Order []int                    `json:"order"` // whatever does not follow on the one before
	Last  int                      `json:"last"`
}

const (
	reads statemachine.Effect[int, string]                   = "reads"
	tells statemachine.Effect[statemachine.Log[string], int] = "tells"
)

func (p *pages) all() []int {
	all := make([]int, p.N)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func (p *pages) read(page int, r statemachine.Result[string]) {
	if page != p.Last+1 || !r.OK() {
		p.Order = append(p.Order, page)
	}
	p.Last = page
	p.Said.Append(r.Value)
}

// readers is a fleet of runs that read many pages at once.
type readers struct {
	*stuck
	mu    sync.Mutex
	calls map[int]int
	now   int // handlers under way
	most  int
}

func (r *readers) catalog(limit int, beside bool) *statemachine.Catalog {
	m := statemachine.New[pages]("pages", 1)
	each := statemachine.Each((*pages).all, limit, reads, nil, (*pages).read)
	if beside {
		each.Queued()
	}
	m.State("read", each)
	m.State("tell", statemachine.Call(tells, func(p *pages) statemachine.Log[string] { return p.Said }, func(p *pages, n int) { p.N = n }))
	m.Succeed("done")
	c := new(statemachine.Catalog).Add(m)
	statemachine.Handle(c, reads, func(_ context.Context, _ string, page int) (string, error) {
		r.mu.Lock()
		r.calls[page]++
		r.now++
		r.most = max(r.most, r.now)
		r.mu.Unlock()
		time.Sleep(time.Duration(page*7%5) * time.Millisecond) // so that results come in another order
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
		return fmt.Sprint(page, " ", strings.Repeat("x", 1000)), nil
	})
	statemachine.Handle(c, tells, func(_ context.Context, _ string, said statemachine.Log[string]) (int, error) {
		for i, s := range said.All() {
			if !strings.HasPrefix(s, fmt.Sprint(i+1, " ")) {
				return 0, statemachine.Terminal("order", fmt.Errorf("%.20q is item %d", s, i))
			}
		}
		return said.Len(), nil
	})
	return c
}

// TestEachOnAFleet: two workers share the items of one run, Redis loses
// everything half-way, and one worker goes; so many are under way at once, no record
// is large, and the results are in order.
func TestEachOnAFleet(t *testing.T) {
	t.Parallel()
	const n = 400
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("queued=", beside), func(t *testing.T) {
			r := &readers{stuck: &stuck{fleet: realServers(t), open: make(chan struct{})}, calls: map[int]int{}}
			catalog := r.catalog(50, beside)
			quick := func(c *pawl.Config) { c.Worker.SweepEvery = 2 * time.Second }
			r.work(catalog, quick)
			stop := r.work(catalog, quick)
			r.start("pages", "book", fmt.Sprintf(`{"n":%d}`, n))
			r.reaches("book", func(s *statemachine.Stored) bool { return s.Frames[0].Fan != nil && s.Frames[0].Fan.Taken > n/4 })
			if err := redis.NewClient(&redis.Options{Addr: r.redis}).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			r.reaches("book", func(s *statemachine.Stored) bool { return s.To != "read" || s.Frames[0].Fan.Taken > n/2 })
			stop()
			end := r.ended("book")
			var p pages
			if err := json.Unmarshal(end.Data, &p); err != nil || end.Status != statemachine.StatusSucceeded || p.N != n || len(p.Order) > 0 {
				t.Fatalf("%s: %v, %d told, not in order: %v", describe(end), err, p.N, p.Order)
			}
			largest, records := 0, r.history("book")
			for _, s := range records {
				largest = max(largest, len(s.Bytes))
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if largest >= 16<<10 || r.most > 50 || len(r.calls) != n {
				t.Errorf("the largest of %d records has %d bytes, %d at once, %d of %d called", len(records), largest, r.most, len(r.calls), n)
			}
			t.Logf("%d records, the largest of %d bytes, %d at once", len(records), largest, r.most)
		})
	}
}
