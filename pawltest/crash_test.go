package pawltest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// shop is the invoice machine with handlers that call a bank and a mail
// service; requests is how many there were to the mail service.
func shop(bank, mail *pawltest.Provider, mailKey func(key string, requests int) string) *sm.Catalog {
	c := new(sm.Catalog).Add(invoice())
	sm.Handle(c, Charge, func(_ context.Context, key string, cents int) (string, error) {
		bank.Perform(key)
		return "receipt of " + key, nil
	})
	requests := 0
	sm.Handle(c, Mail, func(_ context.Context, key, _ string) (string, error) {
		requests++
		mail.Perform(mailKey(key, requests))
		return "sent", nil
	})
	return c
}

func stable(key string, _ int) string { return key }

func TestCrashEverywhereFindsNothingWhereNothingIsAmiss(t *testing.T) {
	var bank, mail pawltest.Provider
	watch := &reports{TB: t}
	pawltest.CrashEverywhere(watch, shop(&bank, &mail, stable), Invoice{Customer: "Ada", Cents: 1200}, nil, pawltest.Using(&bank), pawltest.Using(&mail))
	want := "3 events; tried: the event is delivered again in the end 3, the event is delivered twice 3, the worker dies after the record 2, the worker dies before the record 3"
	if len(watch.faults) > 0 || watch.log != want {
		t.Errorf("found %q, log %q, want %q", watch.faults, watch.log, want)
	}
}

// A handler makes up a key of its own for what it asks of a mail service: when
// a worker dies between the mail and its record, there are two mails.
func TestCrashEverywhereFindsAKeyThatIsNotStable(t *testing.T) {
	var bank, mail pawltest.Provider
	c := shop(&bank, &mail, func(key string, requests int) string { return fmt.Sprintf("mail-%d", requests) })
	watch := &reports{TB: t}
	watch.runs(func() {
		pawltest.CrashEverywhere(watch, c, Invoice{Customer: "Ada", Cents: 1200}, nil, pawltest.Using(&bank), pawltest.Using(&mail))
	})
	got := strings.Join(watch.faults, "\n")
	for _, want := range []string{
		"at event 3: the worker dies before the record\nprovider 2: done 2 times, under the keys",
		"     2 result card.charge → tell\n     * the worker dies before the record\n     3 result email.send → paid",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("found %q, want %q in it", got, want)
		}
	}
}

// What nobody can repeat is given up when its worker dies: that is no fault of
// the machine.
func TestCrashEverywhereLeavesDoubtToPeople(t *testing.T) {
	var bank, mail pawltest.Provider
	c := shop(&bank, &mail, func(key string, requests int) string { return fmt.Sprintf("mail-%d", requests) })
	pawltest.CrashEverywhere(t, c, Invoice{Customer: "Ada", Cents: 1200}, nil,
		pawltest.Using(&bank), pawltest.Using(&mail), pawltest.Policy("email.send", sm.Policy{InDoubt: sm.Halt}))
}

// hall is a machine that waits for guests: a signal each.
type hall struct {
	Guests int `json:"guests"`
	Beds   int `json:"beds"`
}

func waiting(route func(*hall) bool) *sm.Machine[hall] {
	m := sm.New[hall]("hall", 1)
	m.State("prepare", sm.Call(Mail, func(*hall) string { return "come" }, nil))
	m.State("first", sm.Signal("guest", func(h *hall, n int) { h.Guests += n })).Forever().When(route, "lost")
	m.State("second", sm.Signal("guest", func(h *hall, n int) { h.Guests += n })).Forever()
	m.Succeed("full")
	m.State("lost", sm.Signal("nobody", func(*hall, int) {})).Forever().Then("full")
	return m
}

func guests(t testing.TB, r *pawltest.Run) {
	r.Signal("s1", "guest", 1)
	r.Signal("s2", "guest", 2)
	var h hall
	if r.Data(&h); h.Guests != 3 {
		t.Errorf("%d guests, want 3", h.Guests)
	}
}

func TestCrashEverywhereSendsSignalsEarly(t *testing.T) {
	pawltest.CrashEverywhere(t, waiting(func(*hall) bool { return false }), hall{}, guests, pawltest.Returns(Mail, "sent"))

	// Who counts on the order of signals is told.
	watch := &reports{TB: t}
	watch.runs(func() {
		pawltest.CrashEverywhere(watch, waiting(func(h *hall) bool { return h.Guests == 2 }), hall{}, guests, pawltest.Returns(Mail, "sent"))
	})
	got := strings.Join(watch.faults, "\n")
	if !strings.Contains(got, "after event 1: signal guest comes early\n") || !strings.Contains(got, "guests, want 3") {
		t.Errorf("found %q", got)
	}
}

// A machine whose callbacks remember something between records is told apart
// from one whose record says it all.
func TestCrashEverywhereFindsMemoryOutsideOfRecords(t *testing.T) {
	calls := 0
	m := sm.New[hall]("memory", 1)
	m.State("count", sm.Call(Mail, func(*hall) string { calls++; return fmt.Sprint(calls) }, nil))
	m.Succeed("done")
	watch := &reports{TB: t}
	watch.runs(func() { pawltest.CrashEverywhere(watch, m, hall{}, nil, pawltest.Returns(Mail, "sent")) })
	if got := strings.Join(watch.faults, "\n"); !strings.Contains(got, "with nothing amiss:\nnot reproducible") {
		t.Errorf("found %q", got)
	}
}

func TestCrashEverywhereHasALimit(t *testing.T) {
	m := sm.New[hall]("long", 1)
	m.State("turn", sm.Call(Mail, func(h *hall) string { return fmt.Sprint(h.Guests) }, func(h *hall, _ string) { h.Guests++ })).
		Visits(1000, "done").When(func(h *hall) bool { return h.Guests < 400 }, "turn").Then("done")
	m.Succeed("done")
	watch := &reports{TB: t}
	watch.runs(func() { pawltest.CrashEverywhere(watch, m, hall{}, nil, pawltest.Returns(Mail, "sent")) })
	if got := strings.Join(watch.faults, "\n"); got != "the run has 401 events, at most 300 are tried with every fault: give it less to do" {
		t.Errorf("found %q", got)
	}
}

// reports is a test whose reports are looked at.
type reports struct {
	testing.TB
	faults []string
	log    string
}

func (r *reports) Helper() {}
func (r *reports) Fatalf(f string, a ...any) {
	r.faults = append(r.faults, fmt.Sprintf(f, a...))
	panic(r)
}
func (r *reports) Logf(f string, a ...any) { r.log = fmt.Sprintf(f, a...) }

// runs calls f, which may give up.
func (r *reports) runs(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f()
}
