package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// Items of logs are all saved, in their order.
func TestSavesWithItemsOfLogsAreAllMade(t *testing.T) {
	s, shadow := runningSaver(t)
	with := save("a", 2, "", "")
	with.Stored.Adds = map[string][]json.RawMessage{"log": {json.RawMessage(`1`)}}
	s.add(func(b *batch) {
		b.put(save("a", 1, "e", ""))
		b.put(with)
		b.put(save("a", 3, "", "e"))
		b.put(save("a", 4, "", ""))
	})
	if got := shown(<-shadow.asked); got != "a2+e- a4+-e" {
		t.Errorf("asked %q", got)
	}
	shadow.answer <- nil
}

// A message is acked, and a hint written, after the copies that were on their
// way before; a failure of Redis does not hold the ack back.
func TestAcksFollowTheCopies(t *testing.T) {
	for _, answer := range []error{nil, ErrUnavailable} {
		s, shadow := runningSaver(t)
		d, g := &delivery{}, newGate(1)
		h := &held{m: queue.Message{Delivery: d}, gate: g}
		if g.take(t.Context(), 1) != 1 {
			t.Fatal("nothing is free")
		}
		s.add(func(b *batch) { b.put(save("a", 1, "", "")) })
		<-shadow.asked
		s.add(func(b *batch) { b.put(save("a", 2, "", "")); b.acks = append(b.acks, h) })
		shadow.answer <- nil
		<-shadow.asked
		if d.acks != 0 {
			t.Error("acked before its copy")
		}
		shadow.answer <- answer
		if g.take(t.Context(), 1) != 1 || d.acks != 1 {
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
