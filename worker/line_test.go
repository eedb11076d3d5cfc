package worker

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/queue"
)

// dealOut deals n slots out, one at a time, and counts them by line.
func dealOut(ls *lines, n int) map[queue.Line]int {
	got := map[queue.Line]int{}
	for range n {
		l, _ := ls.next(1)
		ls.dealt(l, 1)
		got[l.Line]++
	}
	return got
}

// Slots are dealt out by weight: 16 to 4 to 1 among priorities, whatever number
// of their lines is busy, and 64 to 16 to 4 to 1 among the classes of one.
func TestTurnsAreByWeight(t *testing.T) {
	ls := newLines()
	for _, p := range queue.Priorities() {
		ls.set(ls.of(queue.Line{Priority: p, Class: 1}), true)
	}
	ls.set(ls.of(queue.Line{Priority: queue.High, Class: 4}), true)
	got := dealOut(ls, 2100)
	for line, want := range map[queue.Line]int{
		{Priority: queue.High, Class: 1}: 1575, {Priority: queue.High, Class: 4}: 25, {Priority: queue.Normal, Class: 1}: 400, {Priority: queue.Low, Class: 1}: 100,
	} {
		if n := got[line]; n < want-2 || n > want+2 {
			t.Errorf("%s was dealt %d of 2100, want %d", line.Consumer(), n, want)
		}
	}
}

// Who had nobody in line for a while is owed nothing, and owes nothing.
func TestTurnsForgetTheIdle(t *testing.T) {
	ls := newLines()
	high, low := ls.of(queue.Line{Priority: queue.High, Class: 1}), ls.of(queue.Line{Priority: queue.Low, Class: 1})
	ls.set(low, true)
	dealOut(ls, 10_000) // alone
	ls.set(high, true)
	if got := dealOut(ls, 170); got[low.Line] < 8 || got[low.Line] > 12 {
		t.Errorf("low, alone before, was dealt %d of 170 beside high, want 10", got[low.Line])
	}
	ls.set(low, false)
	dealOut(ls, 10_000)
	ls.set(low, true)
	if got := dealOut(ls, 170); got[low.Line] < 8 || got[low.Line] > 12 {
		t.Errorf("low, idle before, was dealt %d of 170 beside high, want 10", got[low.Line])
	}
}

// Who is dealt many at once leaves the others their share.
func TestTurnsShareABatch(t *testing.T) {
	ls := newLines()
	high, low := ls.of(queue.Line{Priority: queue.High, Class: 1}), ls.of(queue.Line{Priority: queue.Low, Class: 1})
	ls.set(low, true)
	if l, n := ls.next(256); l != low || n != 256 {
		t.Errorf("low alone is dealt %d of 256, want all", n)
	}
	ls.set(high, true)
	for range 2 {
		l, n := ls.next(256)
		ls.dealt(l, n)
		if want := map[*line]int{high: 240, low: 15}[l]; n != want {
			t.Errorf("%s is dealt %d of 256, want %d", l.Consumer(), n, want)
		}
	}
}

// Very many starts are a backlog once they have waited for a while; fewer, or
// none, never.
func TestBacklog(t *testing.T) {
	var b backlog
	now := time.Unix(1_000_000, 0)
	of := func(behind int) []queue.Message { return []queue.Message{{Behind: 5000}, {Behind: behind}} }
	for i, step := range []struct {
		behind int // -1: nothing came
		want   bool
	}{{5000, false}, {4000, true}, {999, false}, {1000, false}, {1000, true}, {-1, false}, {2000, false}} {
		messages := of(step.behind)
		if step.behind < 0 {
			messages = nil
		}
		if b.note(messages, now); b.is(now) != step.want {
			t.Errorf("step %d: %t, want %t", i, b.is(now), step.want)
		}
		now = now.Add(longWait)
	}
}
