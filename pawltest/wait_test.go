package pawltest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// visit waits for a person for three days at most, and asks twice.
type visit struct {
	sm.Meta
	Answer string `json:"answer"`
	Late   string `json:"late"`
}

func visits() *sm.Machine[visit] {
	m := sm.New[visit]("visit", 1)
	m.Deadline(30 * 24 * time.Hour)
	m.State("cool_off", sm.Sleep(func(*visit) time.Duration { return 24 * time.Hour }, nil))
	m.State("ask", sm.Signal("answer", func(v *visit, s string) { v.Answer = s })).Within(3*24*time.Hour, "remind")
	m.State("book", sm.Call[visit](Mail, nil, nil)).Within(time.Minute, "late").Then("done")
	m.State("remind", sm.Signal("answer", func(v *visit, s string) { v.Answer = s })).Forever().Then("book")
	m.Succeed("done")
	m.Fail("late", "late").Because(func(v *visit) string { return v.Cause().Message })
	return m
}

// TestAdvance: a run that sleeps is driven on at once, one that waits for a
// signal waits, and time goes by when it is told to.
func TestAdvance(t *testing.T) {
	t.Parallel()
	r := pawltest.Start(t, visits(), visit{}, pawltest.Returns(Mail, ""))
	began := r.Now()
	if r.State() != "ask" || len(r.Waits()) != 3 {
		t.Fatalf("run in %s waits for %+v", r.State(), r.Waits())
	}
	r.Advance(3*24*time.Hour - time.Nanosecond)
	if r.State() != "ask" {
		t.Errorf("just before its time it is in %s", r.State())
	}
	r.Advance(time.Nanosecond)
	if r.State() != "remind" || r.Now().Sub(began) != 3*24*time.Hour {
		t.Errorf("at its time it is in %s, after %s", r.State(), r.Now().Sub(began))
	}
	if r.Signal("s1", "answer", "yes"); r.Status() != sm.StatusSucceeded {
		t.Errorf("answered it is %s in %s", r.Status(), r.State())
	}

	r = pawltest.Start(t, visits(), visit{}, pawltest.Returns(Mail, ""))
	if r.Advance(31 * 24 * time.Hour); r.Status() != sm.StatusFailed || r.Cause().Class != sm.ClassDeadline {
		t.Errorf("a run whose deadline has passed is %s: %+v", r.Status(), r.Cause())
	}
}

// TestAStateIsLateBeforeItsNextTry: retries do not outlast the bound.
func TestAStateIsLateBeforeItsNextTry(t *testing.T) {
	t.Parallel()
	r := pawltest.Start(t, visits(), visit{}, pawltest.On(Mail, func(string) (string, error) { return "", sm.RetryAfter(50*time.Second, errors.New("busy")) }))
	r.Signal("s1", "answer", "yes")
	if n := len(r.Calls(Mail.Name())); n != 2 || r.State() != "late" || r.Cause().Message != "state book was not done within 1m0s" {
		t.Errorf("%d calls, in %s: %+v", n, r.State(), r.Cause())
	}
}
