package pawl_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
)

// posts is a script with a large result, that then posts each body once.
func posts(url string, bodies ...string) string {
	steps := []string{`{"do":"noop","input":"` + strings.Repeat("x", 20<<10) + `"}`}
	for _, b := range bodies {
		steps = append(steps, fmt.Sprintf(`{"do":"http.post","input":{"url":%q,"body":%q}}`, url, b))
	}
	return `{"steps":[` + strings.Join(steps, ",") + `]}`
}

// performed is how often each body was posted.
func (s *sink) performed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for body, keys := range s.keys {
		body = strings.Trim(body, `"`)
		for key := range keys {
			out[body] += len(s.calls[key])
		}
	}
	return out
}

// results are the results of a kitchensink run, from its records and chunks.
func (f *apiFleet) results(run string) []string {
	f.t.Helper()
	var out []string
	for _, v := range must[api.Run](f, api.RunsGet, api.RunQuery{ID: run, Items: api.AllItems}).Logs["results"] {
		out = append(out, string(v))
	}
	return out
}

// A run that has ended is forked at its third checkpoint, with other data: what
// it did is not done again, and what it did not do waits until a person says so,
// or is done under keys of the fork's own. Workers are killed meanwhile.
func TestForkPerformsNothingAgain(t *testing.T) {
	t.Parallel()
	f := &apiFleet{fleet: realServers(t)}
	s := newSink(t, func(int) time.Duration { return 0 })
	startProcess(t, f.env)
	mortal := startProcess(t, f.env)
	f.start("kitchensink", "original", posts(s.URL, "a", "b", "c", "d"))
	if r := f.ended("original"); r.Status != statemachine.StatusSucceeded || r.Rev < 6 {
		t.Fatalf("the original: %s", describe(r))
	}
	history := f.history("original")
	at := uint64(0) // asks for the second post
	for _, r := range history {
		if len(r.Pending) == 1 && r.Frames[0].Visit == 3 && at == 0 {
			at = r.Rev
		}
	}
	before := s.performed()
	if len(before) != 4 || s.total != 4 {
		t.Fatalf("performed was %v", before)
	}
	steps := func(bodies ...string) json.RawMessage { return json.RawMessage(posts(s.URL, bodies...)) }

	same := must[api.Forked](f, api.RunsFork, api.ForkRequest{ID: "original", Revision: at, Fork: "same", By: "ann"})
	if same.Outcome != api.OutcomeCreated || same.Origin != (api.Origin{Run: "original", Revision: at}) {
		t.Errorf("forked: %+v", same)
	}
	if r := f.ended("same"); r.Status != statemachine.StatusSucceeded || r.V < 5 {
		t.Errorf("the fork with the same data: %s", describe(r))
	}
	if got, want := f.results("same"), f.results("original"); len(want) != 5 || !slices.Equal(got, want) {
		t.Errorf("its results are %v, want %v", got, want)
	}

	q := api.ForkRequest{ID: "original", Revision: at, Fork: "other", Set: steps("a", "b", "c", "D", "e"), Reason: "what if"}
	must[api.Forked](f, api.RunsFork, q)
	mortal.kill()
	parked := func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked }
	r := f.reaches("other", parked)
	if r.Cause.Class != statemachine.ClassUnconfirmed || len(f.results("other")) != 4 {
		t.Errorf("the fork with other data: %s", describe(r))
	}
	if again := must[api.Forked](f, api.RunsFork, q); again.Outcome != api.OutcomeExists {
		t.Errorf("the same again: %+v", again)
	}
	eventually(t, 10*time.Second, "what it waits for", func() bool { // once the message that the dead worker had has come again
		x := must[api.Explanation](f, api.RunsExplain, api.ExplainQuery{ID: "other"})
		return x.Cause == "unconfirmed" && strings.HasPrefix(x.Because[0].Help, "pawl run confirm other")
	})
	if got := s.performed(); s.total != 4 {
		t.Errorf("performed was %v, without being told", got)
	}
	must[api.Told](f, api.RunsConfirm, api.CommandRequest{ID: "other", By: "ann", Reason: "go on"})
	f.reaches("other", func(r *statemachine.Stored) bool { return parked(r) && r.Frames[0].Visit == 6 })
	must[api.Told](f, api.RunsResolve, api.CommandRequest{ID: "other", Effect: f.last("other").Pending[0].ID, Result: json.RawMessage(`"as said"`)})
	if r := f.ended("other"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("the fork with other data: %s", describe(r))
	}
	if got := f.results("other"); len(got) != 6 || got[5] != `"as said"` {
		t.Errorf("its results are %v", got)
	}

	must[api.Forked](f, api.RunsFork, api.ForkRequest{ID: "original", Revision: at, Fork: "performing", Set: steps("a", "b", "c", "E", "F"), Perform: true})
	if r := f.ended("performing"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("the fork that performs: %s", describe(r))
	}
	if got := s.performed(); got["a"]+got["b"]+got["c"]+got["d"] != 4 || got["D"] != 1 || got["e"] != 0 || got["E"] != 1 || got["F"] != 1 {
		t.Errorf("performed was %v", got)
	}
	for _, run := range []string{"same", "other", "performing"} {
		if out := must[api.Replayed](f, api.RunsReplay, api.ReplayQuery{ID: run}); out.Change != nil {
			t.Errorf("%s is replayed differently: %+v", run, out.Change)
		}
	}
	f.refusals(q)
	if err := f.queue.Blobs.PurgeRun(t.Context(), "original"); err != nil {
		t.Fatal(err)
	}
	ref, ok := statemachine.AsBlobRef(json.RawMessage(f.results("same")[0]))
	if b, err := f.queue.Blobs.Get(t.Context(), "same", ref.Hash); !ok || err != nil || len(b) < 20<<10 {
		t.Errorf("the large result of the fork, once the original's are gone: %v, %v", ok, err)
	}
}

// refusals checks what is refused, and that nothing comes of it.
func (f *apiFleet) refusals(good api.ForkRequest) {
	f.t.Helper()
	for name, tt := range map[string]struct {
		change func(q *api.ForkRequest)
		code   int
		class  string
	}{
		"no such run":       {func(q *api.ForkRequest) { q.ID = "nosuch" }, 404, api.ClassNotFound},
		"no such revision":  {func(q *api.ForkRequest) { q.Revision = 99 }, 400, api.ClassBadRequest},
		"revision 0":        {func(q *api.ForkRequest) { q.Revision = 0 }, 400, api.ClassBadRequest},
		"the end":           {func(q *api.ForkRequest) { q.Revision = f.last("original").Rev }, 400, api.ClassBadRequest},
		"an unknown field":  {func(q *api.ForkRequest) { q.Set = json.RawMessage(`{"colour":1}`) }, 422, statemachine.ClassInvalidInput},
		"another type":      {func(q *api.ForkRequest) { q.Set = json.RawMessage(`{"at":"x"}`) }, 422, statemachine.ClassInvalidInput},
		"an unknown effect": {func(q *api.ForkRequest) { q.Set = json.RawMessage(`{"steps":[{},{},{"do":"nosuch"}]}`) }, 422, statemachine.ClassUnknownEffect},
		"a log":             {func(q *api.ForkRequest) { q.Set = json.RawMessage(`{"results":[]}`) }, 422, statemachine.ClassInvalidInput},
		"a version":         {func(q *api.ForkRequest) { q.Version = 99 }, 422, api.ClassUnknownMachine},
		"another's id":      {func(q *api.ForkRequest) { q.Fork = "other" }, 409, api.ClassConflict},
		"a run's id":        {func(q *api.ForkRequest) { q.Fork = "original" }, 409, api.ClassConflict},
	} {
		q := good
		q.Fork, q.Set = "none", nil
		tt.change(&q)
		f.refused(api.RunsFork, q, tt.code, tt.class)
		if r := f.last("none"); r != nil {
			f.t.Errorf("%s: a run began: %s", name, describe(r))
		}
	}
}

// A run that is under way cannot be forked where its effect is.
func TestForkOfARunUnderWay(t *testing.T) {
	t.Parallel()
	f := served(t)
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "r", Input: json.RawMessage(`{"n":2}`)})
	f.refused(api.RunsFork, api.ForkRequest{ID: "r", Revision: 1, Fork: "f"}, 409, api.ClassInFlight)
	close(f.open)
	f.ended("r")
	must[api.Forked](f, api.RunsFork, api.ForkRequest{ID: "r", Revision: 2, Fork: "f"})
	if r := f.ended("f"); r.Status != statemachine.StatusSucceeded {
		t.Errorf("the fork: %s", describe(r))
	}
	run := must[api.Run](f, api.RunsGet, api.RunQuery{ID: "f", Items: api.AllItems})
	if run.Origin == nil || run.Origin.Run != "r" || len(run.Logs["output"]) != 2 {
		t.Errorf("the fork is shown as %+v", run)
	}
}
