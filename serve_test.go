package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// gated is the data of a machine whose one effect does what the test says.
type gated struct {
	Pad    string                   `json:"pad,omitempty"`
	N      int                      `json:"n"` // times, 0 is once
	Done   int                      `json:"done"`
	Output statemachine.Log[string] `json:"output"`
}

const gate statemachine.Effect[int, string] = "gate"

// apiFleet is a worker in this process whose control API is asked.
type apiFleet struct {
	*fleet
	open   chan struct{} // closed: the effect returns; else it waits
	broken atomic.Bool   // the effect fails at once
	stop   func()
}

// served starts a worker.
func served(t *testing.T, opts ...pawl.Option) *apiFleet {
	t.Helper()
	f := &apiFleet{fleet: realServers(t), open: make(chan struct{})}
	m := statemachine.New[gated]("gated", 1)
	m.Index("pad", func(g *gated) string { return g.Pad[:min(4, len(g.Pad))] })
	m.State("work", statemachine.Call(gate, func(g *gated) int { return g.Done }, func(g *gated, s string) {
		g.Done++
		g.Output.Append(s)
	})).Visits(10_000, "failed").When(func(g *gated) bool { return g.Done < g.N }, "work").When(func(g *gated) bool { return g.N < 0 }, "asked").Then("done")
	m.State("asked", statemachine.Signal("decision", func(*gated, struct{ Yes bool }) {})).Forever().Then("done")
	m.Succeed("done")
	m.Fail("failed", "too_many")
	c := new(statemachine.Catalog).Add(m)
	statemachine.Handle(c, gate, func(ctx context.Context, _ string, n int) (string, error) {
		if f.broken.Load() {
			return "", statemachine.Terminal("broken", errors.New("as the test wants it"))
		}
		select {
		case <-f.open:
			return strings.Repeat(fmt.Sprintf("%09d ", n), 800), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	cfg := pawl.Default()
	cfg.Mode, cfg.NATS.URL, cfg.Redis.Addr = "real", f.env["PAWL_NATS_URL"], f.env["PAWL_REDIS_ADDR"]
	cfg.HTTP.Addr, cfg.Worker.AckWait, cfg.Worker.EffectAckWait, cfg.Worker.StopTimeout = "", 1500*time.Millisecond, 1500*time.Millisecond, time.Second
	if _, err := natsqueue.Provision(t.Context(), f.nc, pawl.Topology(cfg, c)); err != nil {
		t.Fatal(err)
	}
	p, err := pawl.Open(t.Context(), cfg, c, append(opts, pawl.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(f.stop)
	<-p.Up()
	eventually(t, 10*time.Second, "the control API", func() bool {
		_, err := f.nc.Request(api.Subject("pawl", "", api.MachinesList), nil, time.Second)
		return err == nil
	})
	return f
}

// ask asks a verb as nobody in particular, and as which error it is answered.
func (f *apiFleet) ask(v api.Verb, request, answer any) *api.Error {
	f.t.Helper()
	return f.askAs("", v, request, answer)
}

func (f *apiFleet) askAs(user string, v api.Verb, request, answer any) *api.Error {
	f.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := f.nc.Request(api.Subject("pawl", user, v), body, 40*time.Second)
	if err != nil {
		f.t.Fatalf("%s %s: %v", v, body, err)
	}
	if code := m.Header.Get(api.HeaderCode); code != "" {
		e := new(api.Error)
		if err := json.Unmarshal(m.Data, e); err != nil {
			f.t.Fatalf("%s: the error %q is no JSON: %v", v, m.Data, err)
		}
		if e.Code = api.CodeOf(e.Class); fmt.Sprint(e.Code) != code || m.Header.Get(api.HeaderError) == "" {
			f.t.Errorf("%s: error %+v under code %s", v, e, code)
		}
		return e
	}
	if len(m.Data) > api.MaxAnswer {
		f.t.Errorf("%s: an answer of %d bytes", v, len(m.Data))
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		f.t.Fatalf("%s: the answer %.200q: %v", v, m.Data, err)
	}
	return nil
}

// must is ask that is not answered by an error.
func must[A any](f *apiFleet, v api.Verb, request any) *A {
	f.t.Helper()
	a := new(A)
	if e := f.ask(v, request, a); e != nil {
		f.t.Fatalf("%s %+v: %d %s: %s", v, request, e.Code, e.Class, e.Message)
	}
	return a
}

// refused is ask that is answered by an error of a class.
func (f *apiFleet) refused(v api.Verb, request any, code int, class string) {
	f.t.Helper()
	e := f.ask(v, request, new(json.RawMessage))
	if e == nil || e.Code != code || e.Class != class {
		f.t.Errorf("%s %+v = %+v, want %d %s", v, request, e, code, class)
	}
}

// A run's life through the API: every start and every command says what became
// of it, and the same again says so.
func TestControlAPICarriesARun(t *testing.T) {
	t.Parallel()
	f := served(t)
	start := api.StartRequest{Machine: "gated", ID: "a run of mine", Input: json.RawMessage(`{"n": 1}`)}
	s := must[api.Started](f, api.RunsStart, start)
	if s.Outcome != api.OutcomeCreated || s.ID != start.ID || s.Status != statemachine.StatusRunning {
		t.Errorf("start = %+v, want created", s)
	}
	start.Input = json.RawMessage(`{"n":1}`) // blanks make no other input
	if s = must[api.Started](f, api.RunsStart, start); s.Outcome != api.OutcomeExists {
		t.Errorf("the same start = %+v, want exists", s)
	}
	other := start
	other.Input = json.RawMessage(`{"n":2}`)
	f.refused(api.RunsStart, other, 409, api.ClassConflict)
	f.refused(api.RunsStart, api.StartRequest{Machine: "gated", Input: json.RawMessage(`{"n":"x"}`)}, 422, statemachine.ClassInvalidInput)
	f.refused(api.RunsStart, api.StartRequest{Machine: "unheard-of"}, 422, "unknown_machine")
	f.refused(api.RunsStart, api.StartRequest{Machine: "gated", Version: 9}, 422, "unknown_version")

	signal := api.SignalRequest{ID: start.ID, Name: "decision", SignalID: "s1", Body: json.RawMessage(`{"yes":true}`)}
	if a := must[api.Told](f, api.RunsSignal, signal); a.Outcome != api.OutcomeApplied || a.SignalID != "s1" {
		t.Errorf("signal = %+v, want applied", a)
	}
	if a := must[api.Told](f, api.RunsSignal, signal); a.Outcome != api.OutcomeDuplicate {
		t.Errorf("the same signal = %+v, want duplicate", a)
	}
	signal.ID = "nobody"
	f.refused(api.RunsSignal, signal, 404, api.ClassNotFound)

	pause := api.CommandRequest{ID: start.ID, RequestID: "p1", By: "somebody", Reason: "lunch"}
	if a := must[api.Told](f, api.RunsPause, pause); a.Outcome != api.OutcomeApplied || a.Status != statemachine.StatusPaused || a.RequestID != "p1" {
		t.Errorf("pause = %+v, want applied and paused", a)
	}
	if a := must[api.Told](f, api.RunsPause, pause); a.Outcome != api.OutcomeDuplicate {
		t.Errorf("the same pause = %+v, want duplicate", a)
	}
	if r := f.last(start.ID); r.Cause == nil || r.Cause.By != "unverified:somebody" {
		t.Errorf("the record says %+v, want a name that is not vouched for", r.Cause)
	}
	if a := must[api.Told](f, api.RunsResume, api.CommandRequest{ID: start.ID}); a.Outcome != api.OutcomeApplied || a.Status != statemachine.StatusRunning || a.RequestID == "" {
		t.Errorf("resume = %+v, want applied, running, and an id", a)
	}
	if a := must[api.Told](f, api.RunsCancel, api.CommandRequest{ID: start.ID, RequestID: "c1"}); a.Outcome != api.OutcomeApplied || a.Status != statemachine.StatusCancelled {
		t.Errorf("cancel = %+v, want applied and cancelled", a)
	}
	if a := must[api.Told](f, api.RunsCancel, api.CommandRequest{ID: start.ID, RequestID: "c1"}); a.Outcome != api.OutcomeDuplicate {
		t.Errorf("the same cancel = %+v, want duplicate", a)
	}
	f.refused(api.RunsCancel, api.CommandRequest{ID: start.ID, RequestID: "c2"}, 409, api.ClassEnded)
	f.refused(api.RunsPause, api.CommandRequest{ID: "nobody"}, 404, api.ClassNotFound)
	signal.ID, signal.SignalID = start.ID, "s2"
	f.refused(api.RunsSignal, signal, 409, api.ClassEnded)

	run := must[api.Run](f, api.RunsGet, api.RunQuery{ID: start.ID})
	if run.Status != statemachine.StatusCancelled || run.Truncated {
		t.Errorf("run = %+v, want cancelled", run)
	}
	f.refused(api.RunsGet, api.RunQuery{ID: "nobody"}, 404, api.ClassNotFound)
	var got []uint64
	for after := uint64(0); ; {
		h := must[api.HistoryPage](f, api.RunsHistory, api.HistoryQuery{ID: start.ID, After: after, Limit: 2})
		for _, r := range h.Revisions {
			got = append(got, r.Revision)
		}
		if after = h.Next; after == 0 {
			break
		}
	}
	if uint64(len(got)) != run.Revision || got[0] != 1 || got[len(got)-1] != run.Revision {
		t.Errorf("history has revisions %v, want 1 to %d", got, run.Revision)
	}
	f.refused(api.RunsHistory, api.HistoryQuery{ID: "nobody"}, 404, api.ClassNotFound)
}

// A run that is parked goes on with a retry; a letter can be found and read.
func TestControlAPIRetries(t *testing.T) {
	t.Parallel()
	f := served(t)
	f.broken.Store(true)
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "r"})
	f.reaches("r", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	letters := new(api.LetterPage)
	eventually(t, 10*time.Second, "the letter", func() bool {
		letters = must[api.LetterPage](f, api.LettersList, api.LettersQuery{Kind: "effect", Machine: "gated", Run: "r", Class: "broken"})
		return len(letters.Letters) == 1
	})
	l := must[api.Letter](f, api.LettersGet, api.LetterQuery{Seq: letters.Letters[0].Seq})
	if string(l.Body) != "0" || l.Effect != "gate" {
		t.Errorf("letter = %+v, want the effect's input", l)
	}
	f.refused(api.LettersGet, api.LetterQuery{Seq: 99}, 404, api.ClassNotFound)
	f.broken.Store(false)
	close(f.open)
	if a := must[api.Told](f, api.RunsRetry, api.CommandRequest{ID: "r", Effect: l.EffectID}); a.Outcome != api.OutcomeApplied {
		t.Errorf("retry = %+v, want applied", a)
	}
	w := must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "r"})
	if !w.Ended || w.Run.Status != statemachine.StatusSucceeded {
		t.Errorf("wait = %+v, want the end", w)
	}
}

// A person says what an effect came to that was given up, and the run goes on
// with that.
func TestControlAPIResolves(t *testing.T) {
	t.Parallel()
	f := served(t)
	f.broken.Store(true)
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "r"})
	r := f.reaches("r", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })
	effect := r.Pending[0].ID
	f.refused(api.RunsResolve, api.CommandRequest{ID: "r", Effect: effect}, 400, api.ClassBadRequest)
	f.refused(api.RunsResolve, api.CommandRequest{ID: "r", Result: json.RawMessage("1")}, 400, api.ClassBadRequest)
	f.refused(api.RunsRetry, api.CommandRequest{ID: "r", Effect: effect, Result: json.RawMessage("1")}, 400, api.ClassBadRequest)
	f.refused(api.RunsResolve, api.CommandRequest{ID: "r", Effect: "another", Result: json.RawMessage("1")}, 400, api.ClassBadRequest)
	misfit := api.CommandRequest{ID: "r", Effect: effect, Result: json.RawMessage("1"), Timeout: new(statemachine.Duration)}
	if a := must[api.Told](f, api.RunsResolve, misfit); a.Outcome != api.OutcomeAccepted {
		t.Errorf("resolve with what does not fit = %+v, want accepted", a)
	}
	eventually(t, 10*time.Second, "the letter of what does not fit", func() bool {
		return len(must[api.LetterPage](f, api.LettersList, api.LettersQuery{Run: "r", Class: statemachine.ClassInvalidResult}).Letters) == 1
	})
	if a := must[api.Told](f, api.RunsResolve, api.CommandRequest{ID: "r", Effect: effect, Result: json.RawMessage(`"done by hand"`)}); a.Outcome != api.OutcomeApplied {
		t.Errorf("resolve = %+v, want applied", a)
	}
	w := must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "r"})
	if !w.Ended || w.Run.Status != statemachine.StatusSucceeded {
		t.Errorf("wait = %+v, want the end", w)
	}
}

// Waits end when the run does, at a later revision, or with their time; a run
// that does not exist yet is waited for.
func TestControlAPIWaits(t *testing.T) {
	t.Parallel()
	f := served(t)
	begun := make(chan *api.Waited, 2)
	for range 2 {
		go func() { begun <- must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "w"}) }()
	}
	soon := statemachine.Duration(50 * time.Millisecond)
	f.refused(api.RunsWait, api.WaitQuery{ID: "never", Timeout: &soon}, 404, api.ClassNotFound)
	s := must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "w"})
	w := must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "w", Timeout: &soon})
	if w.Ended || w.Run == nil || w.Run.Status != statemachine.StatusRunning {
		t.Errorf("a wait whose time is over = %+v, want the run as it is", w)
	}
	later := make(chan *api.Waited, 1)
	go func() { later <- must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "w", Revision: s.Revision}) }()
	must[api.Told](f, api.RunsPause, api.CommandRequest{ID: "w"})
	if w := <-later; w.Ended || w.Run.Revision != s.Revision+1 {
		t.Errorf("a wait for a revision after %d = %+v", s.Revision, w.Run)
	}
	must[api.Told](f, api.RunsCancel, api.CommandRequest{ID: "w"})
	for range 2 {
		if w := <-begun; !w.Ended || w.Run.Status != statemachine.StatusCancelled {
			t.Errorf("wait = %+v, want the end", w)
		}
	}
}

// A run with more output than an answer holds is answered, and says what it
// lacks. Package api has the same with 32 MB.
func TestControlAPIAnswersALargeRun(t *testing.T) {
	t.Parallel()
	f := served(t)
	close(f.open)
	const n = 100 // of 8,000 bytes each
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "big", Input: json.RawMessage(fmt.Sprintf(`{"n":%d,"pad":%q}`, n, strings.Repeat("<&>", 20_000)))})
	for w := new(api.Waited); !w.Ended; {
		w = must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: "big"})
	}
	run := must[api.Run](f, api.RunsGet, api.RunQuery{ID: "big", Items: api.AllItems})
	if !run.Truncated || run.Counts["output"] != n || len(run.Logs["output"]) == 0 || len(run.Data) < 60_000 {
		t.Errorf("truncated %v, %d of %d items, %d bytes of data", run.Truncated, len(run.Logs["output"]), run.Counts["output"], len(run.Data))
	}
	if last := string(run.Logs["output"][len(run.Logs["output"])-1]); !strings.HasPrefix(last, fmt.Sprintf(`"%09d `, n-1)) {
		t.Errorf("the last item is %.20s…, want that of %d", last, n-1)
	}
	if run = must[api.Run](f, api.RunsGet, api.RunQuery{ID: "big", Items: 2}); run.Truncated || len(run.Logs["output"]) != 2 {
		t.Errorf("two items: %d, truncated %v", len(run.Logs["output"]), run.Truncated)
	}
	seen := 0
	for after := uint64(0); ; {
		h := must[api.HistoryPage](f, api.RunsHistory, api.HistoryQuery{ID: "big", Limit: 1000, After: after})
		seen += len(h.Revisions)
		if after = h.Next; after == 0 {
			break
		}
	}
	if uint64(seen) != run.Revision {
		t.Errorf("%d revisions, want %d", seen, run.Revision)
	}
}

// A large value is fetched in pieces.
func TestControlAPIGivesBlobsInPieces(t *testing.T) {
	t.Parallel()
	f := served(t)
	want := []byte(strings.Repeat("0123456789abcdef", 100_000))
	if err := f.queue.Blobs.Put(t.Context(), "run", map[string][]byte{"hash": want}); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		p := must[api.BlobPiece](f, api.BlobsGet, api.BlobQuery{Run: "run", Hash: "hash", Offset: int64(len(got))})
		got = append(got, p.Bytes...)
		if int64(len(got)) == p.Total {
			break
		}
	}
	if string(got) != string(want) {
		t.Errorf("the pieces make %d bytes, not the %d that were put", len(got), len(want))
	}
	f.refused(api.BlobsGet, api.BlobQuery{Run: "run", Hash: "hash", Offset: 1 << 40}, 400, api.ClassBadRequest)
	f.refused(api.BlobsGet, api.BlobQuery{Run: "run", Hash: "other"}, 404, api.ClassNotFound)
}

// Lists from HISTORY are paged, and a cursor is that of its list.
func TestControlAPIListsRuns(t *testing.T) {
	t.Parallel()
	f := served(t)
	close(f.open)
	for i := range 25 {
		must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: fmt.Sprint("run-", i), Input: json.RawMessage(fmt.Sprintf(`{"pad":"p%d"}`, i%2))})
	}
	for i := range 25 {
		must[api.Waited](f, api.RunsWait, api.WaitQuery{ID: fmt.Sprint("run-", i)})
	}
	q := api.RunsQuery{Machine: "gated", Status: statemachine.StatusSucceeded, Where: map[string]string{"pad": "p1"}, Limit: 5, Source: api.SourceHistory}
	seen := map[string]bool{}
	for pages := 1; ; pages++ {
		l := must[api.Listing](f, api.RunsList, q)
		if !l.Complete || l.Rebuilt != 1 || l.Matched != 12 {
			t.Errorf("page %d: complete %v, rebuilt %v, matched %d", pages, l.Complete, l.Rebuilt, l.Matched)
		}
		for _, r := range l.Runs {
			seen[r.ID] = true
		}
		if q.Cursor = l.Next; q.Cursor == "" {
			if pages != 3 || len(seen) != 12 {
				t.Errorf("%d pages have %d runs, want 3 and 12", pages, len(seen))
			}
			break
		}
		other := q
		other.Machine = ""
		f.refused(api.RunsList, other, 400, api.ClassCursor)
	}
	if l := must[api.Listing](f, api.RunsList, api.RunsQuery{}); len(l.Runs) != 25 {
		t.Errorf("%d runs, want 25", len(l.Runs))
	}
	f.refused(api.RunsList, api.RunsQuery{Cursor: "none"}, 400, api.ClassCursor)
}

// What the fleet is made of: machines, streams, workers.
func TestControlAPIDescribesTheFleet(t *testing.T) {
	t.Parallel()
	f := served(t)
	l := must[api.MachineList](f, api.MachinesList, struct{}{})
	if len(l.Machines) != 1 || l.Machines[0].Name != "gated" || len(l.Machines[0].Versions) != 1 || l.Machines[0].Versions[0].Hash == "" {
		t.Errorf("machines = %+v", l)
	}
	m := must[api.Machine](f, api.MachinesGet, api.MachineQuery{Name: "gated"})
	if m.Versions[0].Version != 1 || m.Versions[0].Registered.IsZero() {
		t.Errorf("machine = %+v", m)
	}
	f.refused(api.MachinesGet, api.MachineQuery{Name: "unheard-of"}, 404, api.ClassNotFound)
	found := false
	for _, s := range must[api.StreamList](f, api.StreamsGet, nil).Streams {
		if s.Missing {
			t.Errorf("stream %s is missing", s.Name)
		}
		if s.Name == "PAWL_START" {
			found = s.MaxMessages > 0 && slices.ContainsFunc(s.Consumers, func(c api.StreamConsumer) bool { return c.Name == "start" })
		}
	}
	if !found {
		t.Error("the stream of starts is not described")
	}
	reply, err := f.nc.Request("$SRV.STATS.pawl", nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var s micro.Stats
	var w api.WorkerStats
	if err := json.Unmarshal(reply.Data, &s); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.Endpoints[0].Data, &w); err != nil {
		t.Fatal(err)
	}
	if !w.Ready || w.Lanes != 4 || s.Metadata[api.MetaWorker] == "" || s.Metadata[api.MetaPID] == "" || s.Metadata[api.MetaHost] == "" || s.Metadata[api.MetaStarted] == "" {
		t.Errorf("worker = %+v, metadata %v", w, s.Metadata)
	}
}

// The hook hears who asks, whether the server vouches for it, and may refuse.
func TestControlAPIAuthorises(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 100)
	f := served(t, pawl.WithAuthorise(func(_ context.Context, c api.Caller, verb string) error {
		calls <- fmt.Sprintf("%s %v %s %s", c.User, c.Verified, c.Role, verb)
		if verb == string(api.RunsCancel) && c.User != "anna" {
			return errors.New("only anna may")
		}
		return nil
	}))
	must[api.Started](f, api.RunsStart, api.StartRequest{Machine: "gated", ID: "x"})
	f.refused(api.RunsCancel, api.CommandRequest{ID: "x", By: "anna"}, 403, api.ClassForbidden)
	told := new(api.Told)
	if e := f.askAs("bert", api.RunsCancel, api.CommandRequest{ID: "x", By: "anna"}, told); e == nil || e.Code != 403 || !strings.Contains(e.Message, "only anna may") {
		t.Errorf("bert's cancel = %+v, want 403 with the hook's words", e)
	}
	if e := f.askAs("anna", api.RunsCancel, api.CommandRequest{ID: "x", By: "carl"}, told); e != nil || told.Outcome != api.OutcomeApplied {
		t.Errorf("anna's cancel = %+v, %v", told, e)
	}
	if r := f.last("x"); r.Cause == nil || r.Cause.By != "anna" {
		t.Errorf("the record says %+v, want that anna did it", r.Cause)
	}
	var heard []string
	for len(calls) > 0 {
		if c := <-calls; !strings.Contains(c, "machines.list") {
			heard = append(heard, c)
		}
	}
	want := []string{" false produce runs.start", " false operate runs.cancel", "bert true operate runs.cancel", "anna true operate runs.cancel"}
	if fmt.Sprint(heard) != fmt.Sprint(want) {
		t.Errorf("the hook heard %q, want %q", heard, want)
	}
}

// A thousand reads while two hundred waits hang are all answered, and a stop
// answers the waits.
func TestControlAPIReadsWhileWaitsHang(t *testing.T) {
	t.Parallel()
	f := served(t)
	const waits, reads = 200, 1000
	for i := range waits {
		f.start("gated", fmt.Sprint("hang-", i), `{}`)
	}
	f.reaches(fmt.Sprint("hang-", waits-1), func(*statemachine.Stored) bool { return true })
	inbox := f.nc.NewInbox()
	answers, err := f.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for i := range waits {
		body, _ := json.Marshal(api.WaitQuery{ID: fmt.Sprint("hang-", i)})
		if err := f.nc.PublishRequest(api.Subject("pawl", "", api.RunsWait), inbox, body); err != nil {
			t.Fatal(err)
		}
	}
	gone := f.nc.NewInbox() // one who does not wait for the answer
	if err := f.nc.PublishRequest(api.Subject("pawl", "", api.RunsWait), gone, []byte(`{"id":"hang-0"}`)); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, reads)
	began := time.Now()
	for i := range reads {
		go func() {
			body, _ := json.Marshal(api.RunQuery{ID: fmt.Sprint("hang-", i%waits)})
			m, err := f.nc.Request(api.Subject("pawl", "", api.RunsGet), body, 20*time.Second)
			if err == nil && m.Header.Get(api.HeaderCode) != "" {
				err = errors.New(m.Header.Get(api.HeaderError))
			}
			results <- err
		}()
	}
	for range reads {
		if err := <-results; err != nil {
			t.Fatalf("a read while others wait: %v", err)
		}
	}
	t.Logf("%d reads in %s", reads, time.Since(began).Round(time.Millisecond))
	if n, _, _ := answers.Pending(); n != 0 {
		t.Errorf("%d waits were answered before anything happened", n)
	}
	go f.stop()
	for range waits {
		m, err := answers.NextMsg(15 * time.Second)
		if err != nil {
			t.Fatalf("a wait while the worker stops: %v", err)
		}
		var w api.Waited
		if err := json.Unmarshal(m.Data, &w); err != nil || w.Run == nil || w.Ended {
			t.Fatalf("a wait while the worker stops: %s", m.Data)
		}
	}
	f.stop()
	if _, err := f.nc.Request(api.Subject("pawl", "", api.RunsGet), []byte(`{"id":"hang-0"}`), 5*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a read after the stop: %v, want no responders", err)
	}
}

// Nonsense is told apart and answered in one line.
func TestControlAPIRefusesNonsense(t *testing.T) {
	t.Parallel()
	f := served(t)
	long := strings.Repeat("x", 300)
	tests := []struct {
		verb   api.Verb
		body   string
		says   string
		status string
	}{
		{api.RunsGet, `{`, "not JSON", "400"},
		{api.RunsGet, "\xff", "not UTF-8", "400"},
		{api.RunsGet, `[]`, "a JSON array, not an object", "400"},
		{api.RunsGet, `"x"`, "a JSON string, not an object", "400"},
		{api.RunsGet, `{"id":"x"} {"id":"y"}`, "more than one", "400"},
		{api.RunsGet, ``, "run id is empty", "400"},
		{api.RunsGet, `{"run":"x"}`, `unknown field "run"`, "400"},
		{api.RunsGet, `{"id":7}`, `"id" cannot be a JSON number`, "400"},
		{api.RunsGet, `{"id":"` + long + `"}`, "run id has 300 bytes", "400"},
		{api.RunsGet, `{"id":"x","items":-2}`, "items -2", "400"},
		{api.RunsGet, `{"id":"x","items":1e99}`, "cannot be a JSON number", "400"},
		{api.RunsGet, `{"id":"` + strings.Repeat("x", 1<<19) + `"}`, "the request has 524", "413"},
		{api.RunsGet, strings.Repeat("[", 60_000), "not JSON", "400"},
		{api.RunsList, `{"limit":1001}`, "limit 1001 is not 1 to 1000", "400"},
		{api.RunsList, `{"limit":-1}`, "limit -1", "400"},
		{api.RunsList, `{"status":"lost"}`, `no run has the status "lost"`, "400"},
		{api.RunsList, `{"machine":"A B"}`, `machine "A B" is not`, "400"},
		{api.RunsList, `{"since":"yesterday"}`, "yesterday", "400"},
		{api.RunsList, `{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, "since is not before until", "400"},
		{api.RunsList, `{"source":"memory"}`, `source "memory"`, "400"},
		{api.RunsList, `{"limit":-1,"status":"lost"}`, "; ", "400"},
		{api.RunsHistory, `{"id":"x","after":-1}`, `"after" cannot be a JSON number`, "400"},
		{api.RunsHistory, `{"id":"x","limit":100000}`, "limit 100000", "400"},
		{api.RunsWait, `{"id":"x","timeout":"31s"}`, "timeout 31s is not 0s to 30s", "400"},
		{api.RunsWait, `{"id":"x","timeout":"-1s"}`, "timeout -1s", "400"},
		{api.RunsWait, `{"id":"x","timeout":"soon"}`, `invalid duration "soon"`, "400"},
		{api.RunsWait, `{"id":"x","timeout":5}`, "cannot be a JSON number", "400"},
		{api.RunsStart, `{"machine":"gated","version":-1}`, "version -1", "400"},
		{api.RunsStart, `{"machine":"gated","id":" x"}`, "blanks at its ends", "400"},
		{api.RunsStart, `{"id":"x"}`, `machine "" is not`, "400"},
		{api.RunsStart, `{"machine":"gated","input":"` + strings.Repeat("x", 950<<10) + `"}`, "the input has", "413"},
		{api.RunsSignal, `{"id":"x","name":"a.b"}`, `signal "a.b" is not`, "400"},
		{api.RunsSignal, `{"id":"x","name":"a","signal_id":"` + long + `"}`, "signal_id has 300 bytes", "400"},
		{api.RunsCancel, `{"id":"x","effect":"e"}`, "effect is for a retry, a resolve, a confirm, or a resume that names a state only", "400"},
		{api.RunsCancel, `{"id":"x","request_id":"a\nb"}`, "control characters", "400"},
		{api.RunsCancel, `{"id":"x","reason":"` + strings.Repeat("x", 3000) + `"}`, "reason has 3000 bytes", "400"},
		{api.LettersList, `{"kind":"bill"}`, `kind "bill" is none of`, "400"},
		{api.LettersGet, `{}`, "seq is missing", "400"},
		{api.BlobsGet, `{"run":"x","hash":"a.b"}`, `hash "a.b" is none`, "400"},
		{api.BlobsGet, `{"run":"x","hash":"h","offset":-5}`, "offset -5 is negative", "400"},
		{api.MachinesList, `{"all":true}`, "unknown field", "400"},
	}
	for _, tt := range tests {
		m, err := f.nc.Request(api.Subject("pawl", "", tt.verb), []byte(tt.body), 10*time.Second)
		if err != nil {
			t.Fatalf("%s %.60s: %v", tt.verb, tt.body, err)
		}
		says := m.Header.Get(api.HeaderError)
		if m.Header.Get(api.HeaderCode) != tt.status || !strings.Contains(says, tt.says) || len(says) > 400 {
			t.Errorf("%s %.60s = %s %.400q, want %s with %q", tt.verb, tt.body, m.Header.Get(api.HeaderCode), says, tt.status, tt.says)
		}
	}
}
