package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// While DLQ takes nothing, one letter at a time is tried, ever more rarely.
func TestLetterboxTriesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		b := newLetterbox(time.Second, func(full bool) { told = append(told, full) })
		var last time.Duration
		next := func() time.Time { last++; return time.Now().Add(last) } // when a letter is sent
		before := next()
		if !b.open() || b.wait() != 0 || b.took(next()) {
			t.Error("a new one is not open")
		}
		full := errors.New("full")
		if b.refused(full, before) {
			t.Error("what was sent before one that was stored is news")
		}
		if !b.refused(full, next()) || b.refused(full, next()) {
			t.Error("what is refused is news once")
		}
		var tries []time.Duration
		for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
			if !b.open() {
				continue
			}
			if b.open() {
				t.Fatal("two are tried at once")
			}
			tries = append(tries, time.Since(began))
			b.refused(full, next())
			if w := b.wait(); w <= 0 || w > 10*time.Second {
				t.Errorf("the next is tried in %s, want at most ten beats", w)
			}
		}
		if len(tries) < 12 || len(tries) > 22 || tries[0] > 1300*time.Millisecond {
			t.Errorf("tried at %v", tries)
		}
		before = next()
		if !b.took(next()) || b.took(next()) || b.refused(full, before) || !b.open() || !b.open() {
			t.Error("it is not open once a letter was stored")
		}
		if len(told) != 2 || !told[0] || told[1] {
			t.Errorf("told %v, want that it was full, and is not", told)
		}
	})
}
