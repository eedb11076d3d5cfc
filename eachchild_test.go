package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/statemachine"
)

// shelf is the data of a run that has a run for each book.
type shelf struct {
	N    int                        `json:"n"`
	Read statemachine.Log[bookRead] `json:"read"`
	Odd  []string                   `json:"odd,omitempty"` // whatever came to another end than it should, or at another turn
	Last int                        `json:"last"`
}

// bookRead is the data of the run of a book: what it is given, and comes to.
type bookRead struct {
	Book int    `json:"book"`
	Text string `json:"text,omitempty"`
}

const (
	books    statemachine.Ref[bookRead, bookRead] = "book"
	bookText statemachine.Effect[int, string]     = "book.text"
)

func (s *shelf) all() []int {
	all := make([]int, s.N)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func (s *shelf) took(book int, r statemachine.Result[bookRead]) {
	torn := book%7 == 0
	if book != s.Last+1 || r.OK() == torn || torn && r.Cause.Class != "torn" || !torn && (r.Value.Book != book || r.Value.Text != fmt.Sprint("text ", book)) {
		s.Odd = append(s.Odd, fmt.Sprintf("%d after %d: %+v", book, s.Last, r))
	}
	s.Last = book
	s.Read.Append(r.Value)
}

// TestEachChildOnAFleet: two workers share the runs that another has as its
// items, Redis loses everything half-way, and one worker goes: so many are under
// way at once, and what they come to is taken in order, once, failures too.
func TestEachChildOnAFleet(t *testing.T) {
	t.Parallel()
	const n, atOnce = 60, 12
	f := &stuck{fleet: realServers(t), open: make(chan struct{})}
	var mu sync.Mutex
	calls := map[int]int{}
	m := statemachine.New[shelf]("shelf", 1)
	m.State("read", statemachine.EachChild((*shelf).all, atOnce, books, func(_ *shelf, book int) bookRead { return bookRead{Book: book} }, (*shelf).took))
	m.Succeed("done")
	b := statemachine.New[bookRead]("book", 1)
	b.State("text", statemachine.Call(bookText, func(b *bookRead) int { return b.Book }, func(b *bookRead, text string) { b.Text = text })).Catch("torn", "torn")
	b.Succeed("done")
	b.Fail("torn", "torn")
	c := new(statemachine.Catalog).Add(m, b)
	statemachine.Handle(c, bookText, func(_ context.Context, _ string, book int) (string, error) {
		mu.Lock()
		calls[book]++
		mu.Unlock()
		if book%7 == 0 {
			return "", statemachine.Terminal("torn", fmt.Errorf("book %d", book))
		}
		return fmt.Sprint("text ", book), nil
	})
	quick := func(c *pawl.Config) { c.Worker.SweepEvery = 2 * time.Second }
	f.work(c, quick)
	stop := f.work(c, quick)
	f.start("shelf", "shelf", fmt.Sprintf(`{"n":%d}`, n))
	f.reaches("shelf", func(s *statemachine.Stored) bool { return s.Frames[0].Fan != nil && s.Frames[0].Fan.Taken > n/4 })
	if err := redis.NewClient(&redis.Options{Addr: f.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.reaches("shelf", func(s *statemachine.Stored) bool { return s.Status.Ended() || s.Frames[0].Fan.Taken > n/2 })
	stop()
	end := f.ended("shelf")
	var data shelf
	if err := json.Unmarshal(end.Data, &data); err != nil || end.Status != statemachine.StatusSucceeded || len(data.Odd) > 0 || end.Logs["read"].Count != n {
		t.Fatalf("%s: %v, %d read, not as it should be: %v", describe(end), err, end.Logs["read"].Count, data.Odd)
	}
	most, children := 0, map[string]bool{}
	for _, s := range f.history("shelf") {
		most = max(most, s.UnderWay())
		for _, p := range s.Pending {
			children[p.Child.Run] = true
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most > atOnce || len(children) != n || len(calls) != n {
		t.Errorf("%d at once, %d children, %d of %d called", most, len(children), len(calls), n)
	}
}
