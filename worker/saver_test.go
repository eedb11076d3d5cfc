package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// slowShadow is a Redis that answers a write when it is told to.
type slowShadow struct {
	Shadow
	asked  chan []Save
	answer chan error
	hints  []Hint
}

func (s *slowShadow) Save(_ context.Context, saves []Save) ([]Saved, error) {
	s.asked <- saves
	return make([]Saved, len(saves)), <-s.answer
}

func (s *slowShadow) Flushed(_ context.Context, hints []Hint) error {
	s.hints = append(s.hints, hints...)
	return nil
}

func runningSaver(t *testing.T) (*saver, *slowShadow) {
	l := bareLane()
	shadow := &slowShadow{asked: make(chan []Save), answer: make(chan error)}
	l.w.ports.Shadow = shadow
	over := make(chan struct{})
	go func() { l.saver.run(l.w.work); close(over) }()
	t.Cleanup(func() { l.saver.close(); <-over })
	return l.saver, shadow
}

func save(run string, seq uint64, claim, release string) Save {
	return Save{Stored: &statemachine.Stored{Seq: seq, Record: &statemachine.Record{Run: run}}, Claim: strings.Fields(claim), Release: strings.Fields(release)}
}

// shown is what Redis was asked, a word a save.
func shown(saves []Save) string {
	var out []string
	for _, v := range saves {
		claim, release := slices.Clone(v.Claim), slices.Clone(v.Release)
		slices.Sort(claim)
		slices.Sort(release)
		out = append(out, fmt.Sprintf("%s%d+%s-%s", v.Stored.Run, v.Stored.Seq, strings.Join(claim, ""), strings.Join(release, "")))
	}
	return strings.Join(out, " ")
}

// While one batch is under way the next gathers: the newest record of each run,
// the claims that nothing has settled since, and every release.
func TestOnlyTheNewestRecordIsSaved(t *testing.T) {
	s, shadow := runningSaver(t)
	put := func(v Save) { s.add(func(b *batch) { b.put(v) }) }
	put(save("a", 1, "e", ""))
	if got := shown(<-shadow.asked); got != "a1+e-" {
		t.Errorf("asked %q", got)
	}
	put(save("a", 2, "f", "e"))
	put(save("b", 7, "x", ""))
	put(save("a", 3, "g", "f"))
	put(save("b", 8, "y", ""))
	shadow.answer <- nil
	if got := shown(<-shadow.asked); got != "a3+g-ef b8+xy-" {
		t.Errorf("asked %q", got)
	}
	shadow.answer <- nil
}

// Items of logs are all saved, in their order, by whichever record comes last.
func TestTheNewestRecordBringsTheItemsOfThoseBefore(t *testing.T) {
	s, shadow := runningSaver(t)
	with := func(seq uint64, items ...string) Save {
		v := save("a", seq, "", "")
		v.Stored.Adds = map[string][]json.RawMessage{}
		for _, it := range items {
			v.Stored.Adds["log"] = append(v.Stored.Adds["log"], json.RawMessage(it))
		}
		return v
	}
	third := with(3, "3", "4")
	s.add(func(b *batch) {
		b.put(save("a", 1, "e", ""))
		b.put(with(2, "1", "2"))
		b.put(third)
		b.put(save("a", 4, "", "e"))
		b.put(with(5, "5"))
	})
	saves := <-shadow.asked
	if got := shown(saves); got != "a5+-e" {
		t.Errorf("asked %q", got)
	}
	if got := fmt.Sprintf("%s %s", saves[0].Earlier["log"], saves[0].Stored.Adds["log"]); got != "[1 2 3 4] [5]" {
		t.Errorf("items %s", got)
	}
	if len(third.Stored.Adds["log"]) != 2 {
		t.Error("a record was changed")
	}
	shadow.answer <- nil
}

// After a write Redis is left alone for nine times as long, unless somebody
// waits for what gathers, or is far ahead.
func TestRedisRestsAfterAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shadow := runningSaver(t)
		s.w.cfg.Batch = 1
		put := func(v Save) { s.add(func(b *batch) { b.put(v) }) }
		var asked time.Time
		next := func(pause time.Duration, saves int) {
			t.Helper()
			before := asked
			got := <-shadow.asked
			asked = time.Now()
			if len(got) != saves || !before.IsZero() && asked.Sub(before) != pause {
				t.Errorf("%s after %s, want %s", shown(got), asked.Sub(before), pause)
			}
			time.Sleep(10 * time.Millisecond)
			shadow.answer <- nil
		}
		put(save("a", 1, "", ""))
		next(0, 1)
		put(save("a", 2, "", ""))
		put(save("a", 3, "", ""))
		next(100*time.Millisecond, 1)
		put(save("a", 4, "", ""))
		go s.wait([]string{"a"})
		next(10*time.Millisecond, 1)
		for i := range 17 {
			put(save(fmt.Sprint("r", i), 1, "", ""))
		}
		go s.room()
		next(10*time.Millisecond, 17)
		s.room()
	})
}

// A message is acked, and a hint written, after the copies that were on their
// way before; a failure of Redis does not hold the ack back.
func TestAcksFollowTheCopies(t *testing.T) {
	for _, answer := range []error{nil, ErrUnavailable} {
		s, shadow := runningSaver(t)
		d := &delivery{}
		h := &held{m: queue.Message{Delivery: d}}
		s.add(func(b *batch) { b.put(save("a", 1, "", "")) })
		<-shadow.asked
		s.add(func(b *batch) { b.put(save("a", 2, "", "")); b.acks = append(b.acks, h) })
		shadow.answer <- nil
		<-shadow.asked
		if d.acks != 0 {
			t.Error("acked before its copy")
		}
		s.mu.Lock()
		done := s.under.done
		s.mu.Unlock()
		shadow.answer <- answer
		if <-done; d.acks != 1 {
			t.Errorf("%v: acked %d times", answer, d.acks)
		}
	}
}

// Whoever reads a run in Redis waits for what is on its way there, of this run
// alone.
func TestWaitIsForTheRunsOwnSaves(t *testing.T) {
	s, shadow := runningSaver(t)
	s.wait([]string{"a"})
	s.add(func(b *batch) { b.put(save("a", 1, "", "")) })
	<-shadow.asked
	s.wait([]string{"b"})
	s.add(func(b *batch) { b.put(save("b", 1, "", "")) })
	waited := make(chan string, 2)
	go func() { s.wait([]string{"a"}); waited <- "a"; s.wait([]string{"c", "b"}); waited <- "b" }()
	shadow.answer <- nil
	if got := <-waited; got != "a" {
		t.Error(got)
	}
	<-shadow.asked
	select {
	case got := <-waited:
		t.Errorf("%s was waited for in vain", got)
	default:
	}
	shadow.answer <- nil
	<-waited
}

// A claim waits for a claim or a release of the same effect that is on its way,
// and for nothing else of its run: a queued effect need not wait for the record
// that asked for it.
func TestAClaimWaitsForItsOwnEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, shadow := runningSaver(t)
		claims := func(effect string) []Claim { return []Claim{{Run: "z", Effect: "x"}, {Run: "a", Effect: effect}} }
		s.add(func(b *batch) { b.put(save("a", 1, "e", "d")) })
		<-shadow.asked
		s.settled(claims("f"))
		waited := make(chan string, 3)
		for _, effect := range []string{"d", "e"} {
			go func() { s.settled(claims(effect)); waited <- effect }()
		}
		synctest.Wait()
		if len(waited) > 0 {
			t.Errorf("a claim of %s was not waited for", <-waited)
		}
		shadow.answer <- nil
		<-waited
		<-waited
	})
}
