package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/statemachine"
)

// once is a run of one call.
type once struct{ In int }

func (o *once) in() int { return o.In }

// callOnce is a machine of one call of an effect.
func callOnce(name string, effect statemachine.Effect[int, int]) *statemachine.Machine[once] {
	m := statemachine.New[once](name, 1)
	m.State("call", statemachine.Call(effect, (*once).in, nil))
	m.Succeed("done")
	return m
}

// Many handlers that ignore their deadline are reported and given up, and their
// places are taken by others: those that come after them are performed.
func TestHungHandlersDoNotStopTheWorker(t *testing.T) {
	t.Parallel()
	const hangs, works statemachine.Effect[int, int] = "hangs", "works"
	const stuck, well = 60, 40
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	c := new(statemachine.Catalog)
	statemachine.Handle(c, hangs, func(context.Context, string, int) (int, error) { <-never; return 0, nil },
		statemachine.Policy{Timeout: 200 * time.Millisecond, Attempts: 1})
	statemachine.Handle(c, works, func(_ context.Context, _ string, in int) (int, error) { return in, nil })
	p, f := opened(t, func(cfg *pawl.Config) { cfg.Worker.InlineMax, cfg.Worker.QueuedMax = 8, 8 }, c.Add(callOnce("stuck", hangs), callOnce("well", works)))
	for i := range stuck {
		f.start("stuck", fmt.Sprint("stuck-", i), `{}`)
	}
	for i := range well {
		f.start("well", fmt.Sprint("well-", i), `{}`)
	}
	for i := range well {
		if r := f.ended(fmt.Sprint("well-", i)); r.Status != statemachine.StatusSucceeded {
			t.Errorf("%s: %s", r.Run, describe(r))
		}
	}
	for i := range stuck {
		r := f.reaches(fmt.Sprint("stuck-", i), func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
		if r.Cause.Class != "hung" {
			t.Errorf("%s: %s", r.Run, describe(r))
		}
	}
	prints := map[string]bool{}
	for _, l := range f.letters(stuck) {
		prints[l.Print] = true
	}
	if len(prints) != 1 {
		t.Errorf("letters of one fault have %d fingerprints", len(prints))
	}
	if got := scrape(t, p).values["pawl_handlers_hung_total"]; got != stuck {
		t.Errorf("%v handlers are reported hung, want %d", got, stuck)
	}
	f.idle()
}

// A handler's panic is a failed attempt, with its stack in the record and the
// letter, and takes nothing else down.
func TestPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	const panics statemachine.Effect[int, int] = "panics"
	c := new(statemachine.Catalog)
	statemachine.Handle(c, panics, func(_ context.Context, _ string, in int) (int, error) { panic(fmt.Sprint("no such customer: ", in)) },
		statemachine.Policy{Attempts: 2})
	_, f := opened(t, nil, c.Add(callOnce("panicky", panics)))
	f.start("panicky", "p-1", `{"In":1}`)
	f.start("panicky", "p-2", `{"In":2}`)
	for _, run := range []string{"p-1", "p-2"} {
		r := f.reaches(run, func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
		if r.Cause.Class != statemachine.ClassPanic || !strings.HasPrefix(r.Cause.Message, "no such customer: ") || !strings.Contains(r.Cause.Message, "handlers_test.go:") || r.Cause.Attempt != 2 {
			t.Errorf("%s: %s", run, describe(r))
		}
	}
	if l := f.letters(2); l[0].Print != l[1].Print || !strings.Contains(l[0].Cause, "handlers_test.go:") {
		t.Errorf("letters %+v", l)
	}
}

// What a service answers that cannot be taken, or not in time, is said in one
// clear line; what is not JSON is taken as text.
func TestAnswersThatAreOutOfTheOrdinary(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Header().Set("Content-Type", "application/json")
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 40 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><h1>It works!</h1></html>")
		case "/never":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	startProcess(t, f.env, configured(t, "effects: {policies: {http.post: {timeout: 4s, attempts: 2}}}\n")...)
	for _, path := range []string{"large", "html", "never"} {
		f.start("kitchensink", path, fmt.Sprintf(`{"steps":[{"do":"http.post","input":{"url":%q}}]}`, s.URL+"/"+path))
	}
	for run, want := range map[string]statemachine.Cause{
		"large": {Class: "response_too_large", Message: "POST " + s.URL + "/large: the response has more than 33554432 bytes"},
		"never": {Class: statemachine.ClassTimeout, Message: "the attempt took longer than 4s"},
	} {
		r := f.reaches(run, func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
		if r.Cause.Class != want.Class || r.Cause.Message != want.Message {
			t.Errorf("%s: %s, want %+v", run, describe(r), want)
		}
	}
	if r := f.ended("html"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("html: %s", describe(r))
	}
	text := false
	for _, r := range f.history("html") {
		for _, e := range r.Events {
			var got struct{ Text string }
			text = text || json.Unmarshal(e.Body, &got) == nil && got.Text == "<html><h1>It works!</h1></html>"
		}
	}
	if !text {
		t.Error("the page is not the result")
	}
	if l := f.letters(2); len(l) != 2 {
		t.Errorf("letters %+v", l)
	}
}
