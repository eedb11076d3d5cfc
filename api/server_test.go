package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

// do asks a server.
func do[A any](t *testing.T, s *Server, v Verb, request any) (*A, error) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Do(t.Context(), Caller{Role: v.Role()}, v, body)
	if err != nil {
		return nil, err
	}
	if len(answer) > MaxAnswer {
		t.Errorf("%s: an answer of %d bytes", v, len(answer))
	}
	a := new(A)
	if err := json.Unmarshal(answer, a); err != nil {
		t.Fatalf("%s: the answer %.200q: %v", v, answer, err)
	}
	return a, nil
}

func newServer(t *testing.T, a *Answers, o ServerOptions) *Server {
	t.Helper()
	s := NewServer(a, o)
	t.Cleanup(s.Close)
	return s
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// isClass reports whether an error is of a class.
func isClass(err error, class string) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == class && e.Code == CodeOf(class)
}

// A run with 32 MB in its logs is answered with the end of each, in time and
// without reading all of it.
func TestLargeRunIsTruncated(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 3, 2)
	const steps, chunk = 4200, 8
	item := func(i int) json.RawMessage {
		b, _ := encode(fmt.Sprintf("%04d", i) + strings.Repeat("<", 8000))
		return b
	}
	ref := statemachine.LogRef{Count: steps, Sealed: steps}
	for first := 0; first < steps; first += chunk {
		c := statemachine.Chunk{Prev: ref.Head, First: first}
		for i := range chunk {
			c.Items = append(c.Items, item(first+i))
		}
		ref.Head = fmt.Sprint("chunk-", first)
		w.blobs[ref.Head], _ = encode(c)
	}
	w.runs["run-1"][2].Logs["results"] = ref
	read := 0
	a := w.answers()
	a.Blobs = &countingBlobs{Blobs: a.Blobs, n: &read}
	run, err := do[Run](t, newServer(t, a, ServerOptions{}), RunsGet, RunQuery{ID: "run-1", Items: AllItems})
	if err != nil {
		t.Fatal(err)
	}
	items := run.Logs["results"]
	if !run.Truncated || run.Counts["results"] != steps || len(items) < 20 || !strings.HasPrefix(string(items[len(items)-1]), `"4199<`) {
		t.Errorf("truncated %v, %d of %d items", run.Truncated, len(items), run.Counts["results"])
	}
	if read > 2*MaxAnswer {
		t.Errorf("%d bytes of chunks were read", read)
	}
}

type countingBlobs struct {
	Blobs
	n *int
}

func (c *countingBlobs) Get(ctx context.Context, run, hash string) ([]byte, error) {
	b, err := c.Blobs.Get(ctx, run, hash)
	*c.n += len(b)
	return b, err
}

// A run whose record is nearly all there may be is answered without what does
// not fit, the less important first.
func TestFullRecordIsTruncated(t *testing.T) {
	t.Parallel()
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("&", n) + `"`) }
	for name, tt := range map[string]struct {
		data, input, inbox int // KB
		input1, data1      bool
	}{
		"all fits":          {100, 200, 100, true, true},
		"inputs do not fit": {100, 350, 120, false, true},
		"nor does data":     {600, 350, 120, false, false},
	} {
		w := newTwin(t)
		w.drive(counting("counter"), "run-1", 3, 0)
		r := w.runs["run-1"][0]
		r.Data, r.Pending[0].Input = text(tt.data<<10), text(tt.input<<10)
		r.Inbox = []statemachine.InboxSignal{{ID: "signal:1", Body: text(tt.inbox << 10)}}
		run, err := do[Run](t, newServer(t, w.answers(), ServerOptions{}), RunsGet, RunQuery{ID: "run-1"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := len(run.Pending[0].Input) > 0; got != tt.input1 || (len(run.Data) > 4) != tt.data1 || run.Truncated != !tt.input1 || run.Inbox[0].ID == "" {
			t.Errorf("%s: input %v, data %d bytes, truncated %v", name, got, len(run.Data), run.Truncated)
		}
	}
}

// A revision that is too large alone is answered without its events, and those
// after it in a page of their own.
func TestLargeRevisionIsTruncated(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 3, 3)
	for range 400 {
		w.runs["run-1"][1].Events = append(w.runs["run-1"][1].Events, statemachine.Event{ID: "e", Cause: &statemachine.Cause{Message: strings.Repeat("x", 2000)}})
	}
	s := newServer(t, w.answers(), ServerOptions{})
	var seen []string
	for after := uint64(0); ; {
		p, err := do[HistoryPage](t, s, RunsHistory, HistoryQuery{ID: "run-1", After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Revisions {
			seen = append(seen, fmt.Sprint(r.Revision, r.Truncated))
		}
		seen = append(seen, "|")
		if after = p.Next; after == 0 {
			break
		}
	}
	if got, want := strings.Join(seen, " "), "1 false | 2 true 3 false 4 false |"; got != want {
		t.Errorf("pages are %s, want %s", got, want)
	}
}

// Letters are listed without their bodies, and one that is too large is cut.
func TestLargeLetters(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	for i := range uint64(120) {
		w.letters = append(w.letters, deadletter.Letter{Seq: i + 1, Kind: deadletter.KindStart, Machine: "a", Cause: strings.Repeat("x", 10_000), Body: make([]byte, 900<<10)})
	}
	w.letters[5].Headers = map[string]string{"h": strings.Repeat("y", 600<<10)}
	s := newServer(t, w.answers(), ServerOptions{})
	seen, truncated, pages := 0, 0, 0
	for after := uint64(0); ; pages++ {
		p, err := do[LetterPage](t, s, LettersList, LettersQuery{Kind: deadletter.KindStart, After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Letters {
			if seen++; l.Truncated {
				truncated++
			}
			if l.Body != nil || l.Data != nil || l.Text != "" {
				t.Fatalf("letter %d of a list has a body", l.Seq)
			}
		}
		if after = p.Next; after == 0 {
			break
		}
	}
	if seen != 120 || truncated != 1 || pages < 2 {
		t.Errorf("%d letters on %d pages, %d truncated, want 120, more than 2, 1", seen, pages+1, truncated)
	}
	l, err := do[Letter](t, s, LettersGet, LetterQuery{Seq: 6})
	if err != nil || !l.Truncated || l.Machine != "a" {
		t.Errorf("letter = %+v, %v, want it truncated", l, err)
	}
}

// A fault of a handler is an answer, and the next request is served.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	a := w.answers()
	a.Registry = panicking{}
	s := newServer(t, a, ServerOptions{Reads: 1})
	for range 3 {
		if _, err := do[MachineList](t, s, MachinesList, nil); !isClass(err, ClassInternal) {
			t.Errorf("a fault = %v, want internal", err)
		}
	}
	if _, err := do[Run](t, s, RunsGet, RunQuery{ID: "x"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("after faults: %v, want not found", err)
	}
}

type panicking struct{}

func (panicking) Machines(context.Context) ([]Machine, error) { panic("a fault") }

// What is not offered here, or away, is said; what the caller may not have, too.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 0)
	s := newServer(t, w.answers(), ServerOptions{})
	for v, request := range map[Verb]any{
		RunsStart: StartRequest{Machine: "counter"}, RunsSignal: SignalRequest{ID: "run-1", Name: "a"}, RunsPause: CommandRequest{ID: "run-1"},
		MachinesList: nil, StreamsGet: nil, RunsList: RunsQuery{Source: SourceIndex},
	} {
		if _, err := do[json.RawMessage](t, s, v, request); !isClass(err, ClassUnavailable) {
			t.Errorf("%s without what it needs = %v, want unavailable", v, err)
		}
	}
	if _, err := s.Do(t.Context(), Caller{Role: RoleView}, RunsCancel, nil); !isClass(err, ClassForbidden) {
		t.Errorf("cancel as a viewer = %v, want forbidden", err)
	}
	if _, err := s.Do(t.Context(), Caller{Role: RoleView}, "runs.eat", nil); !isClass(err, ClassNotFound) {
		t.Errorf("an unknown verb = %v, want not found", err)
	}
	w.broken = errors.New("no connection")
	for v, request := range map[Verb]any{
		RunsGet: RunQuery{ID: "x"}, RunsHistory: HistoryQuery{ID: "x"}, RunsWait: WaitQuery{ID: "x"}, RunsList: RunsQuery{}, LettersList: nil,
	} {
		if _, err := do[json.RawMessage](t, s, v, request); !isClass(err, ClassUnavailable) || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("%s without a store = %v, want unavailable", v, err)
		}
	}
}

// slowLog answers when it is told to.
type slowLog struct {
	Log
	go_ chan struct{}
	in  atomic.Int64
}

func (l *slowLog) Look(ctx context.Context, run string) (*statemachine.Stored, error) {
	l.in.Add(1)
	select {
	case <-l.go_:
		return l.Log.Look(ctx, run)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Requests beyond what is served and what may wait are answered at once.
func TestTooManyReadsAreBusy(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 0)
	a := w.answers()
	log := &slowLog{Log: a.Log, go_: make(chan struct{})}
	a.Log = log
	s := newServer(t, a, ServerOptions{Reads: 2, Timeout: time.Minute})
	const served = 2 + 64 // under way, and in the queue
	errs := make(chan error, 200)
	for range cap(errs) {
		go func() {
			_, err := s.Do(context.Background(), Caller{Role: RoleView}, RunsGet, []byte(`{"id":"run-1"}`))
			errs <- err
		}()
	}
	for range cap(errs) - served {
		if err := <-errs; !isClass(err, ClassBusy) {
			t.Fatalf("a request too many = %v, want busy", err)
		}
	}
	if n := log.in.Load(); n > 2 {
		t.Errorf("%d requests are under way, want 2", n)
	}
	close(log.go_)
	for range served {
		if err := <-errs; err != nil {
			t.Errorf("a request that had its turn: %v", err)
		}
	}
}

// A read that takes too long is an error, not silence.
func TestSlowReadTimesOut(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	a := w.answers()
	a.Log = &slowLog{Log: a.Log, go_: make(chan struct{})}
	s := newServer(t, a, ServerOptions{Timeout: 20 * time.Millisecond})
	if _, err := do[Run](t, s, RunsGet, RunQuery{ID: "x"}); !isClass(err, ClassTimeout) {
		t.Errorf("a slow read = %v, want timeout", err)
	}
}

// fixedIndex answers what it is told.
type fixedIndex struct {
	l     *Listing
	err   error
	asked []Filter
}

func (x *fixedIndex) List(_ context.Context, f Filter) (*Listing, error) {
	x.asked = append(x.asked, f)
	return x.l, x.err
}

// A list is made by the index, by HISTORY if that is away, and where the
// caller says.
func TestListFallsBackToHistory(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 1, 1)
	x := &fixedIndex{l: &Listing{Runs: []Row{{ID: "from the index"}}, Next: "x"}}
	a := w.answers()
	a.Index = x
	s := newServer(t, a, ServerOptions{})
	away := errors.New("away")
	tests := []struct {
		err    error
		source Source
		cursor string
		first  string
		class  string
	}{
		{nil, SourceAny, "", "from the index", ""},
		{nil, SourceIndex, "", "from the index", ""},
		{nil, SourceHistory, "", "run-1", ""},
		{away, SourceAny, "", "run-1", ""},
		{away, SourceAny, "x", "", ClassUnavailable}, // another list would repeat or skip
		{away, SourceIndex, "", "", ClassUnavailable},
		{away, SourceHistory, "", "run-1", ""},
		{fmt.Errorf("list: %w", ErrCursor), SourceAny, "y", "", ClassCursor},
		{nil, SourceHistory, "x", "", ClassCursor},
	}
	for _, tt := range tests {
		x.err = tt.err
		l, err := do[Listing](t, s, RunsList, RunsQuery{Source: tt.source, Cursor: tt.cursor})
		switch {
		case tt.class != "" && !isClass(err, tt.class):
			t.Errorf("%+v = %v", tt, err)
		case tt.class == "" && (err != nil || l.Runs[0].ID != tt.first):
			t.Errorf("%+v = %+v, %v", tt, l, err)
		}
	}
}

// A page that is too large is made again, shorter.
func TestLongRowsMakeAShorterPage(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	for i := range 300 {
		run := fmt.Sprint("run-", i)
		w.drive(counting("counter"), run, 1, 0)
		w.runs[run][0].Cause = &statemachine.Cause{Message: strings.Repeat("x", 4000)}
	}
	s := newServer(t, w.answers(), ServerOptions{})
	seen, q := map[string]bool{}, RunsQuery{Limit: 1000}
	for {
		l, err := do[Listing](t, s, RunsList, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.Runs {
			seen[r.ID] = true
		}
		if q.Cursor = l.Next; q.Cursor == "" {
			break
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d runs, want 300", len(seen))
	}
}

// mailer is a Sender that notes, and a fleet that does what it is told.
type mailer struct {
	w      *twin
	err    error
	starts int
	by     []string // of commands
	seq    uint64
	then   func(s Start)
}

func (m *mailer) Start(_ context.Context, s Start) (uint64, error) {
	m.starts++
	if m.err == nil && m.then != nil {
		m.then(s)
	}
	return m.seq, m.err
}
func (m *mailer) Signal(context.Context, SignalTo) error { return m.err }
func (m *mailer) Command(_ context.Context, c Command) error {
	m.by = append(m.by, c.By)
	return m.err
}

// A signal that is larger than a run takes is refused, not stored for a worker
// to give up on.
func TestSignalsHaveALimit(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "there", 1, 0)
	a := w.answers()
	a.Sender = &mailer{w: w, err: ErrFull} // what comes to it
	s := newServer(t, a, ServerOptions{})
	for size, class := range map[int]string{statemachine.MaxSignal: ClassFull, statemachine.MaxSignal + 1: ClassTooLarge} {
		body := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
		if _, err := do[Told](t, s, RunsSignal, SignalRequest{ID: "there", Name: "word", Body: body}); !isClass(err, class) {
			t.Errorf("a signal of %d bytes: %v, want %s", size, err, class)
		}
	}
}

// A name that a caller claims does not look like one that the broker vouches
// for, even if what is claimed looks so.
func TestClaimedNamesAreMarked(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "there", 1, 0)
	m := &mailer{w: w}
	a := w.answers()
	a.Sender = m
	s := newServer(t, a, ServerOptions{})
	tests := []struct {
		c    Caller
		by   string
		want string
	}{
		{Caller{User: "anna", Verified: true}, "carl", "anna"},
		{Caller{User: "anna", Verified: true}, "", "anna"},
		{Caller{}, "anna", "unverified:anna"},
		{Caller{}, "unverified:anna", "unverified:unverified:anna"},
		{Caller{}, "", ""},
	}
	var want []string
	for _, tt := range tests {
		want = append(want, tt.want)
		tt.c.Role = RoleOperate
		body, _ := json.Marshal(CommandRequest{ID: "there", By: tt.by, Timeout: new(statemachine.Duration)})
		if _, err := s.Do(t.Context(), tt.c, RunsPause, body); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(m.by) != fmt.Sprint(want) {
		t.Errorf("recorded %q, want %q", m.by, want)
	}
	long := CommandRequest{ID: "there", By: strings.Repeat("x", maxID)} // a record takes no more with what is put before it
	if _, err := do[Told](t, s, RunsPause, long); !isClass(err, ClassBadRequest) {
		t.Errorf("a name of %d bytes = %v, want bad_request", maxID, err)
	}
}

// A start is accepted if nothing is seen of it in its time; a sender's errors
// are told as what they are.
func TestStartThatIsNotSeen(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "there", 1, 0)
	m := &mailer{w: w, seq: 7}
	a := w.answers()
	a.Sender = m
	s := newServer(t, a, ServerOptions{})
	soon := statemachine.Duration(50 * time.Millisecond)
	r, err := do[Started](t, s, RunsStart, StartRequest{Machine: "counter", Timeout: &soon})
	if err != nil || r.Outcome != OutcomeAccepted || r.ID == "" || m.starts != 1 {
		t.Errorf("start = %+v, %v, want accepted under an id", r, err)
	}
	told, err := do[Told](t, s, RunsPause, CommandRequest{ID: "there", Timeout: &soon})
	if err != nil || told.Outcome != OutcomeAccepted || told.Revision != 1 {
		t.Errorf("pause = %+v, %v, want accepted", told, err)
	}
	// Another start of the same id was quicker: the record says whose it is.
	m.then = func(Start) {
		w.apply(counting("counter"), "raced", statemachine.Event{Kind: statemachine.EventStart, Seq: 6, Body: json.RawMessage(`{"n":1}`)})
	}
	r, err = do[Started](t, s, RunsStart, StartRequest{Machine: "counter", ID: "raced", Input: json.RawMessage(`{"n":1}`)})
	if err != nil || r.Outcome != OutcomeExists {
		t.Errorf("a start that came second = %+v, %v, want exists", r, err)
	}
	m.then = func(s Start) {
		w.letters = append(w.letters, deadletter.Letter{Seq: 1, Kind: deadletter.KindStart, Machine: "counter", Class: "invalid_input", Cause: "invalid_input: n is no number", SrcSeq: 7})
	}
	_, err = do[Started](t, s, RunsStart, StartRequest{Machine: "counter", ID: "refused"})
	if !isClass(err, "invalid_input") || !strings.Contains(err.Error(), "n is no number") || CodeOf("invalid_input") != 422 {
		t.Errorf("a start that is refused = %v, want 422 with the letter's cause", err)
	}
	m.then = nil
	m.err = fmt.Errorf("start: %w: 1 MB", ErrTooLarge)
	if _, err = do[Started](t, s, RunsStart, StartRequest{Machine: "counter"}); !isClass(err, ClassTooLarge) {
		t.Errorf("a start that no stream takes = %v, want too_large", err)
	}
	m.err = errors.New("stream PAWL_START is full")
	if _, err = do[Started](t, s, RunsStart, StartRequest{Machine: "counter"}); !isClass(err, ClassUnavailable) {
		t.Errorf("a start that a full stream refuses = %v, want unavailable", err)
	}
}

// A page of letters whose time is over when the first letter comes passes that
// one, so that what follows is asked for.
func TestSlowPageOfLettersIsNotTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTwin(t)
		for i := range 3 {
			w.letters = append(w.letters, deadletter.Letter{Seq: uint64(i + 1), ID: fmt.Sprint(i), Kind: deadletter.KindStart, Machine: "m", Class: "c"})
		}
		a := w.answers()
		a.Letters = slowLetters{a.Letters}
		s := NewServer(a, ServerOptions{})
		defer s.Close()
		n := 0
		for q := (LettersQuery{}); ; {
			p, err := do[LetterPage](t, s, LettersList, q)
			if err != nil {
				t.Fatal(err)
			}
			n += len(p.Letters)
			if p.Next == 0 {
				break
			}
			if p.Next <= q.After {
				t.Fatalf("the page after %d goes on at %d", q.After, p.Next)
			}
			q.After = p.Next
		}
		if n != 3 {
			t.Errorf("%d letters, want 3", n)
		}
	})
}

// slowLetters take longer than a page may.
type slowLetters struct{ Letters }

func (l slowLetters) Of(ctx context.Context, kind deadletter.Kind, machine string, after uint64) iter.Seq2[deadletter.Letter, error] {
	return func(yield func(deadletter.Letter, error) bool) {
		time.Sleep(letterTime + 1) // of a virtual clock
		l.Letters.Of(ctx, kind, machine, after)(yield)
	}
}

// A log that lies far back costs its time, and no more.
func TestLogsThatTakeTooLongAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 3, 2)
	a := w.answers()
	a.Log = stuckReads{a.Log}
	s := newServer(t, a, ServerOptions{Timeout: time.Minute})
	run, err := do[Run](t, s, RunsGet, RunQuery{ID: "run-1", Items: AllItems})
	if err != nil || !run.Truncated || run.Logs != nil {
		t.Errorf("run = %+v, %v, want it truncated", run, err)
	}
}

type stuckReads struct{ Log }

func (stuckReads) Read(ctx context.Context, _ string, _ uint64) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// The items of a log that was last added to long ago are found without reading
// all records since.
func TestLogsLeapOverRecords(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	w.drive(counting("counter"), "run-1", 100, 90)
	a := w.answers()
	log := &countingReads{Log: a.Log}
	a.Log = log
	run, err := a.Run(t.Context(), "run-1", AllItems)
	if err != nil || len(run.Logs["results"]) != 90 || len(run.Logs["other"]) != 1 {
		t.Fatalf("run = %+v, %v", run, err)
	}
	if log.n > 15 {
		t.Errorf("%d of 91 records were read, want few", log.n)
	}
}

type countingReads struct {
	Log
	n int
}

func (l *countingReads) Read(ctx context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error] {
	return func(yield func(*statemachine.Stored, error) bool) {
		for r, err := range l.Log.Read(ctx, run, after) {
			if l.n++; !yield(r, err) {
				return
			}
		}
	}
}
