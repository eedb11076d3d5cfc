package pawl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/statemachine"
)

// Many updates at once while a worker is killed: each is answered, with an
// answer of its own, none is applied twice, and the same is answered again.
func TestManyUpdatesWhileAWorkerDies(t *testing.T) {
	t.Parallel()
	const updates, atOnce = 300, 100
	f := realServers(t)
	dying := startProcess(t, f.env)
	startProcess(t, f.env)
	f.start("kitchensink", "u", `{"steps":[{"await":"go"}]}`)
	f.reaches("u", func(r *statemachine.Stored) bool { return r.To == "await" })
	c, err := client.New(f.nc, client.WithTimeout(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(i int) (n int, err error) { // made again until it is answered, as a caller would
		for until := time.Now().Add(time.Minute); n == 0 && time.Now().Before(until); {
			_, err = c.Update(t.Context(), "u", "note", fmt.Sprint("u", i), map[string]int{"note": i}, &n)
			if err != nil && !errors.Is(err, client.ErrUnavailable) {
				break
			}
		}
		return n, err
	}
	answers := make([]int, updates)
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce) // size: so many wait for an answer
	for i := range updates {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			n, err := ask(i)
			if err != nil {
				t.Errorf("update %d: %v", i, err)
			}
			answers[i] = n
			if i == updates/3 {
				dying.kill()
			}
		})
	}
	wg.Wait()
	given := map[int]int{}
	for _, n := range answers {
		given[n]++
	}
	for n := 1; n <= updates; n++ {
		if given[n] != 1 {
			t.Errorf("answer %d was given %d times", n, given[n])
		}
	}
	r := f.last("u")
	if n := r.Logs["results"].Count; n != updates || len(r.Replies) > statemachine.MaxReplies {
		t.Errorf("%d updates were applied, want %d; %d replies are kept", n, updates, len(r.Replies))
	}
	for _, i := range []int{0, updates / 2, updates - 1} { // of which the record may have forgotten the answers
		if n, err := ask(i); n != answers[i] || err != nil {
			t.Errorf("update %d again: %d, %v, was %d", i, n, err, answers[i])
		}
	}
}

// Who sends an update is told what became of it: no such run, no such update,
// what does not fit, what the machine refuses, an end, and nobody there.
func TestUpdatesAreAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	f := &apiFleet{fleet: realServers(t)}
	worker := startProcess(t, f.env)
	f.start("kitchensink", "u", `{"steps":[{"await":"go"}]}`)
	f.reaches("u", func(r *statemachine.Stored) bool { return r.To == "await" })
	note := api.UpdateRequest{ID: "u", Name: "note", UpdateID: "n1", By: "ann", Body: []byte(`{"note":"hi"}`)}
	for _, want := range []api.Outcome{api.OutcomeApplied, api.OutcomeDuplicate} {
		if a := must[api.Told](f, api.RunsUpdate, note); a.Outcome != want || string(a.Value) != "1" || a.UpdateID != "n1" {
			t.Errorf("%+v, want %s and 1", a, want)
		}
	}
	for body, want := range map[string]struct {
		code  int
		class string
	}{
		`{"id":"v","name":"note"}`:                                     {404, api.ClassNotFound},
		`{"id":"u","name":"nosuch"}`:                                   {422, statemachine.ClassUnknownUpdate},
		`{"id":"u","name":"note","body":{"refuse":7}}`:                 {422, statemachine.ClassInvalidInput},
		`{"id":"u","name":"note","body":{"refuse":"not on a Monday"}}`: {422, statemachine.ClassRefused},
		`{"id":"u","name":"No Te"}`:                                    {400, api.ClassBadRequest},
	} {
		var q api.UpdateRequest
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		f.refused(api.RunsUpdate, q, want.code, want.class)
	}
	f.command(statemachine.EventUpdate, "u", "straight", statemachine.Command{Name: "nosuch"})
	if e := f.applied("u", "straight"); e.Reply("cmd:straight").Cause.Class != statemachine.ClassUnknownUpdate {
		t.Errorf("no worker was asked before: %+v", e.Reply("cmd:straight"))
	}

	// With nobody there it is stored, and answered once there is somebody.
	worker.kill()
	f.command(statemachine.EventUpdate, "u", "n2", statemachine.Command{Name: "note", Input: []byte(`{"note":"are you there?"}`)})
	startProcess(t, f.env)
	f.applied("u", "n2")
	eventually(t, 10*time.Second, "that somebody answers", func() bool {
		_, err := f.nc.Request(api.Subject("pawl", "", api.MachinesList), nil, time.Second)
		return err == nil
	})
	note.UpdateID = "n2"
	if a := must[api.Told](f, api.RunsUpdate, note); a.Outcome != api.OutcomeDuplicate || string(a.Value) != "2" {
		t.Errorf("answered with nobody there: %+v", a)
	}
	f.command(statemachine.EventCancel, "u", "c", statemachine.Command{})
	f.ended("u")
	note.UpdateID = "n3"
	f.refused(api.RunsUpdate, note, 409, api.ClassEnded)
	note.UpdateID = "n1"
	if a := must[api.Told](f, api.RunsUpdate, note); a.Outcome != api.OutcomeDuplicate || string(a.Value) != "1" {
		t.Errorf("the answer of a run that has ended: %+v", a)
	}
}

// A signal that no machine takes, or whose payload does not fit, is refused by
// the API in one line; so is one that is too large, also by what sends it.
func TestSignalsAreRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	v := keepVigil(t)
	v.work(v.catalog())
	f := &apiFleet{fleet: v.fleet}
	v.start("vigil", "r", `{"nap":"1ms","wait":"1h"}`)
	v.reaches("r", func(r *statemachine.Stored) bool { return r.To == "listen" })
	f.refused(api.RunsSignal, api.SignalRequest{ID: "r", Name: "nosuch"}, 422, statemachine.ClassUnknownSignal)
	f.refused(api.RunsSignal, api.SignalRequest{ID: "r", Name: "word", Body: []byte(`{"not":"a word"}`)}, 422, statemachine.ClassInvalidInput)
	large := api.SignalTo{Run: "r", Name: "word", ID: "s", Body: []byte(`"` + strings.Repeat("x", statemachine.MaxSignal) + `"`)}
	if err := f.queue.Sender.Signal(t.Context(), large); !errors.Is(err, api.ErrTooLarge) {
		t.Errorf("a signal of %d bytes: %v", len(large.Body), err)
	}
	if n := f.holds("PAWL_SIGNAL") + f.holds("PAWL_DLQ"); n != 0 || len(f.history("r")) > 3 {
		t.Errorf("%d messages are stored of what was refused", n)
	}
}
