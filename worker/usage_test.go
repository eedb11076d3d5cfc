package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/queue"
)

// A tenant with many starts fills the classes one after the other; others, of
// whatever number, are in the first, and so is another priority of its own.
func TestUsageClasses(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsage(now)
	got := map[int]int{}
	for range 100_000 {
		got[u.class(queue.Normal, "many", now)]++
	}
	for class, want := range map[int]int{1: 64, 2: 1024 - 64, 3: 16384 - 1024, 4: 100_000 - 16384} {
		if got[class] != want {
			t.Errorf("class %d has %d starts, want %d", class, got[class], want)
		}
	}
	if c := u.class(queue.High, "many", now); c != 1 {
		t.Errorf("its first start of high priority is of class %d, want 1", c)
	}
	late := 0
	for tenant := range 1000 {
		for range 10 {
			if u.class(queue.Normal, fmt.Sprint("few", tenant), now) > 1 {
				late++
			}
		}
	}
	if late > 100 {
		t.Errorf("%d of 10,000 starts of tenants with ten each are not of the first class", late)
	}
}

// What was long ago counts less and less.
func TestUsageFades(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsage(now)
	for range 16_000 {
		u.class(queue.Normal, "a", now)
	}
	for _, want := range []int{3, 3, 3, 3, 2} { // 16,000, 8,000, …, 1,000
		if c := u.class(queue.Normal, "a", now); c != want {
			t.Errorf("at %s class %d, want %d", now.Sub(time.Unix(1_000_000, 0)), c, want)
		}
		now = now.Add(usageHalf)
	}
	if c := u.class(queue.Normal, "a", now.Add(time.Hour)); c != 1 {
		t.Errorf("after an hour class %d, want 1", c)
	}
}
