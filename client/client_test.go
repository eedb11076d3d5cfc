package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
)

// stub answers requests as a worker does.
type stub struct {
	t  *testing.T
	nc *nats.Conn
}

func newStub(t *testing.T, n *natstest.Node, opts ...nats.Option) *stub {
	return &stub{t: t, nc: n.Conn(opts...)}
}

// on answers a verb with what answer returns: an error as an *api.Error, no
// answer at all for nil.
func (s *stub) on(v api.Verb, answer func(body []byte) any) *nats.Subscription {
	s.t.Helper()
	sub, err := s.nc.QueueSubscribe(api.Subject("pawl", "", v), api.ServiceGroup, func(m *nats.Msg) {
		r := nats.NewMsg(m.Reply)
		switch a := answer(m.Data).(type) {
		case nil:
			return
		case *api.Error:
			r.Header.Set(api.HeaderCode, fmt.Sprint(api.CodeOf(a.Class)))
			r.Header.Set(api.HeaderError, a.Message)
			r.Data, _ = json.Marshal(a)
		default:
			r.Data, _ = json.Marshal(a)
		}
		if err := s.nc.PublishMsg(r); err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test may be over
			s.t.Errorf("answer %s: %v", v, err)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return sub
}

func connect(t *testing.T, n *natstest.Node, opts ...Option) *Client {
	t.Helper()
	c, err := Connect(n.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A request that changes something is made again with the same id until it is
// answered, so that it is done once.
func TestCallsAreRepeatedWithTheSameID(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n, WithTimeout(3*time.Second))
	var mu sync.Mutex
	var starts []api.StartRequest
	s := newStub(t, n)
	s.on(api.RunsStart, func(body []byte) any {
		var r api.StartRequest
		if err := json.Unmarshal(body, &r); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		switch starts = append(starts, r); len(starts) {
		case 1:
			return nil // it died with the request in its hands
		case 2:
			return &api.Error{Class: api.ClassBusy, Message: "too many at once"}
		}
		return api.Started{ID: r.ID, Outcome: Exists}
	})
	got, err := c.Start(t.Context(), "report", map[string]int{"n": 1}, StartOptions{Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(starts) != 3 || got.Outcome != Exists || got.ID != starts[0].ID || !strings.HasPrefix(got.ID, "report-") {
		t.Errorf("Start = %+v after %d requests, want exists after 3", got, len(starts))
	}
	for _, r := range starts {
		if r.ID != got.ID || r.Machine != "report" || r.Version != 2 || string(r.Input) != `{"n":1}` || r.Timeout == nil {
			t.Errorf("a request is %+v", r)
		}
	}
}

// brief is how long a call may take that is to fail for want of time: long
// enough on a busy machine to hear what the server says of it.
const brief = 2 * time.Second

// While no worker is there a call waits for one; it says so when its time is
// over.
func TestNoWorkerAnswers(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n, WithTimeout(brief))
	_, err := c.Get(t.Context(), "r", 0)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no worker answers on pawl.api.view.runs.get") {
		t.Errorf("Get = %v, want ErrUnavailable: no worker answers", err)
	}
	c = connect(t, n, WithTimeout(natstest.Patience))
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "r", 0)
		done <- err
	}()
	newStub(t, n).on(api.RunsGet, func([]byte) any { return Run{ID: "r"} })
	if err := <-done; err != nil {
		t.Errorf("Get = %v once a worker came", err)
	}
}

func TestContextEndsACall(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	newStub(t, n).on(api.RunsGet, func([]byte) any { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Get(ctx, "r", 0)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "it may have been done") {
		t.Errorf("Get = %v, want a deadline", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(canceled, "r", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want context.Canceled", err)
	}
}

func TestErrorsOfTheFleet(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n, WithTimeout(200*time.Millisecond))
	var answer atomic.Pointer[api.Error]
	newStub(t, n).on(api.RunsGet, func([]byte) any { return answer.Load() })
	for class, want := range map[string]error{
		api.ClassBadRequest: ErrInvalid, api.ClassForbidden: ErrDenied, api.ClassNotFound: ErrNotFound, api.ClassConflict: ErrConflict,
		api.ClassEnded: ErrConflict, api.ClassTooLarge: ErrTooLarge, "invalid_input": ErrRefused, api.ClassUnavailable: ErrUnavailable,
		api.ClassInternal: ErrInternal,
	} {
		answer.Store(&api.Error{Class: class, Message: "because of it"})
		_, err := c.Get(t.Context(), "r", 0)
		var e *Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Class != class || e.Message != "because of it" || e.Code != api.CodeOf(class) {
			t.Errorf("%s: %#v, want %v", class, err, want)
		}
	}
}

// A permission that is missing looks like a time-out; it is named, at once.
func TestMissingPermissionIsNamed(t *testing.T) {
	n := natstest.One(t, func(o *server.Options) {
		allow := func(publish, subscribe []string) *server.Permissions {
			return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}
		}
		o.Users = []*server.User{
			{Username: "worker", Password: "w"},
			{Username: "reader", Password: "r", Permissions: allow([]string{"pawl.api.view.>", "$JS.API.STREAM.INFO.>"}, []string{"_INBOX.>"})},
			{Username: "deaf", Password: "d", Permissions: allow([]string{">"}, []string{"news"})},
		}
	})
	s := newStub(t, n, nats.UserInfo("worker", "w"))
	s.on(api.RunsGet, func([]byte) any { return Run{ID: "r"} })
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWL_FINISHED", Subjects: []string{"pawl.finished.*"}}); err != nil {
		t.Fatal(err)
	}
	as := func(user, password string, opts ...Option) *Client {
		return connect(t, n, append(opts, WithNATS(nats.UserInfo(user, password)), WithTimeout(natstest.Patience))...)
	}
	reader := as("reader", "r")
	if _, err := reader.Get(t.Context(), "r", 0); err != nil {
		t.Errorf("Get = %v for a user who may", err)
	}
	denied := map[string]func() error{
		"publish to pawl.api.produce.runs.start": func() error { _, err := reader.Start(t.Context(), "report", nil, StartOptions{}); return err },
		"publish to pawl.start.report":           func() error { _, err := reader.Publish(t.Context(), "report", nil, StartOptions{}); return err },
		"publish to pawl.api.operate.runs.cancel": func() error {
			_, err := reader.Cancel(t.Context(), "r", CommandOptions{})
			return err
		},
		"publish to $SRV.STATS.pawl":               func() error { _, err := reader.Workers(t.Context()); return err },
		"publish to $JS.API.CONSUMER.CREATE.PAWL_": func() error { _, err := reader.Finished(t.Context(), FinishedOptions{}); return err },
		"publish to pawl.api.as.eve.view.runs.get": func() error {
			_, err := as("reader", "r", WithUser("eve")).Get(t.Context(), "r", 0)
			return err
		},
		"subscribe to _INBOX.": func() error { _, err := as("deaf", "d").Get(t.Context(), "r", 0); return err },
	}
	for want, call := range denied {
		began := time.Now()
		err := call()
		if !errors.Is(err, ErrDenied) || !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrDenied: %s", err, want)
		}
		if time.Since(began) > natstest.Patience/2 {
			t.Errorf("%s: named after %v", want, time.Since(began))
		}
	}
	// The subscription for answers is made once: the second call hears nothing
	// of it any more.
	deaf := as("deaf", "d")
	for range 2 {
		if _, err := deaf.Get(t.Context(), "r", 0); !errors.Is(err, ErrDenied) {
			t.Errorf("Get = %v, want ErrDenied", err)
		}
	}
	if _, err := Connect(n.URL(), WithNATS(nats.UserInfo("reader", "wrong"))); !errors.Is(err, ErrDenied) {
		t.Errorf("Connect = %v, want ErrDenied", err)
	}
}

// A client on a connection of somebody else leaves it its error handler.
func TestNewKeepsTheErrorHandler(t *testing.T) {
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"x"}}}}}
	})
	heard := make(chan error, 1)
	nc := n.Conn(nats.UserInfo("u", "p"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { heard <- err }))
	c, err := New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "r", 0); !errors.Is(err, ErrDenied) {
		t.Errorf("Get = %v, want ErrDenied", err)
	}
	if err := <-heard; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("the handler heard %v", err)
	}
	c.Close()
	if nc.IsClosed() {
		t.Error("Close closed a connection that is not its own")
	}
}

// Waiting outlives a worker that dies with the question in its hands.
func TestWaitSurvivesAWorker(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	c.poll = 200 * time.Millisecond
	asked := make(chan struct{}, 1)
	dying := newStub(t, n)
	dying.on(api.RunsWait, func([]byte) any { asked <- struct{}{}; return nil })
	done := make(chan error, 1)
	go func() {
		r, err := c.Wait(t.Context(), "r")
		if err == nil && r.Status != StatusSucceeded {
			err = fmt.Errorf("status %s", r.Status)
		}
		done <- err
	}()
	<-asked
	dying.nc.Close()
	next := newStub(t, n)
	var questions atomic.Int32
	next.on(api.RunsWait, func([]byte) any {
		if questions.Add(1) == 1 { // a question that is over before the run is
			return api.Waited{Run: &Run{ID: "r", Status: StatusRunning}}
		}
		return api.Waited{Run: &Run{ID: "r", Status: StatusSucceeded}, Ended: true}
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Waiting outlives the server, and asks again as soon as it is back: what was
// asked before is answered no more.
func TestWaitSurvivesTheServer(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	c.poll = time.Hour
	s := newStub(t, n)
	asked := make(chan struct{}, 2)
	var ended atomic.Bool
	s.on(api.RunsWait, func([]byte) any {
		asked <- struct{}{}
		if !ended.Load() {
			return nil
		}
		return api.Waited{Run: &Run{ID: "r", Status: StatusFailed}, Ended: true}
	})
	done := make(chan error, 1)
	go func() { _, err := c.Wait(t.Context(), "r"); done <- err }()
	<-asked
	n.Stop()
	ended.Store(true)
	n.Start()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// One break of the connection ends one try, whatever is told of it and however
// often; the goroutine that listens ends with the try.
func TestOneBreakEndsOneTry(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	status := make(chan nats.Status, 10)
	try := func() (context.Context, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		return ctx, c.endsWithConnection(ctx, cancel, status)
	}
	ctx, over := try()
	status <- nats.RECONNECTING
	<-ctx.Done()
	over()
	status <- nats.DISCONNECTED // of the same break, before the next try
	n.Stop()
	natstest.Await(t, "the connection to be down", func() bool { return !c.nc.IsConnected() })
	ctx, over = try()
	for _, s := range []nats.Status{nats.DISCONNECTED, nats.RECONNECTING, nats.CONNECTED} { // of it, during the next try
		status <- s
	}
	natstest.Await(t, "all to be heard", func() bool { return len(status) == 0 })
	if ctx.Err() != nil {
		t.Error("the same break ended a second try")
	}
	status <- nats.RECONNECTING // another one
	<-ctx.Done()
	over()
}

// A run that does not exist is waited for as long as a call may take: a start
// that was just published may not have been taken yet.
func TestWaitForARunThatIsNotThere(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n, WithTimeout(brief))
	var questions atomic.Int32
	var late atomic.Bool
	newStub(t, n).on(api.RunsWait, func([]byte) any {
		if questions.Add(1) > 3 && late.Load() {
			return api.Waited{Run: &Run{ID: "r", Status: StatusSucceeded}, Ended: true}
		}
		return &api.Error{Class: api.ClassNotFound, Message: `run "r": not found`}
	})
	if _, err := c.Wait(t.Context(), "r"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Wait = %v, want ErrNotFound", err)
	}
	questions.Store(0)
	late.Store(true)
	c = connect(t, n, WithTimeout(natstest.Patience))
	if _, err := c.Wait(t.Context(), "r"); err != nil {
		t.Errorf("Wait = %v for a run that came late", err)
	}
}

// An answer that comes as the time ends is still the answer.
func TestAnswerAtTheEndOfTheTime(t *testing.T) {
	c := connect(t, natstest.One(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.again(ctx, "op", "subject", func(context.Context) error {
		cancel()
		return &Error{Op: "op", Code: 409, kind: ErrConflict}
	})
	if !errors.Is(err, ErrConflict) || errors.Is(err, ErrUnavailable) {
		t.Errorf("again = %v, want the conflict", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	newStub(t, n).on(api.RunsWait, func([]byte) any { return api.Waited{Run: &Run{ID: "r", Status: StatusRunning}} })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want a deadline", err)
	}
}

func TestResult(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	c.poll = 400 * time.Millisecond
	newStub(t, n).on(api.RunsWait, func(body []byte) any {
		var q api.WaitQuery
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		r := &Run{ID: q.ID, State: "s", Status: Status(q.ID), Data: json.RawMessage(`{"total":12}`)}
		if r.Status != StatusSucceeded {
			r.Error = &Cause{Class: "http_4xx", Message: "no such customer"}
		}
		return api.Waited{Run: r, Ended: r.Status.Ended()}
	})
	type data struct{ Total int }
	v, err := Result[data](t.Context(), c, string(StatusSucceeded))
	if err != nil || v.Total != 12 {
		t.Errorf("Result = %+v, %v", v, err)
	}
	if _, err := Result[string](t.Context(), c, string(StatusSucceeded)); err == nil {
		t.Error("Result decoded an object as a string")
	}
	for status, want := range map[Status]string{
		StatusFailed:    "run failed failed in state s: http_4xx: no such customer",
		StatusCancelled: "run cancelled was cancelled in state s: http_4xx: no such customer",
		StatusParked:    "run parked is parked in state s: http_4xx: no such customer",
	} {
		_, err := Result[data](t.Context(), c, string(status))
		var e *RunError
		if !errors.As(err, &e) || e.Run.Status != status || err.Error() != want {
			t.Errorf("Result of %s = %v, want %s", status, err, want)
		}
	}
}

func TestPages(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	s := newStub(t, n)
	s.on(api.RunsList, func(body []byte) any {
		var q api.RunsQuery
		_ = json.Unmarshal(body, &q)
		if q.Machine != "report" {
			t.Errorf("query %+v", q)
		}
		if q.Cursor == "" {
			return api.Listing{Runs: []api.Row{{ID: "a"}, {ID: "b"}}, Next: "2", Rebuilt: 0.5}
		}
		return api.Listing{Runs: []api.Row{{ID: "c"}}, Complete: true, Rebuilt: 1}
	})
	s.on(api.RunsHistory, func(body []byte) any {
		var q api.HistoryQuery
		_ = json.Unmarshal(body, &q)
		if q.After < 3 {
			return api.HistoryPage{Revisions: []*Revision{{Revision: q.After + 1}}, Next: q.After + 1}
		}
		return api.HistoryPage{}
	})
	s.on(api.LettersList, func(body []byte) any {
		var q api.LettersQuery
		_ = json.Unmarshal(body, &q)
		if q.After == 0 {
			return api.LetterPage{Letters: []*Letter{{}}, Next: 1, Unreadable: 2}
		}
		return api.LetterPage{}
	})
	var runs []string
	var complete []bool
	for l, err := range c.List(t.Context(), Query{Machine: "report"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.Runs {
			runs = append(runs, r.ID)
		}
		complete = append(complete, l.Complete)
	}
	if !slices.Equal(runs, []string{"a", "b", "c"}) || !slices.Equal(complete, []bool{false, true}) {
		t.Errorf("List = %v, complete %v", runs, complete)
	}
	var revs []uint64
	for r, err := range c.History(t.Context(), "r") {
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, r.Revision)
	}
	if !slices.Equal(revs, []uint64{1, 2, 3}) {
		t.Errorf("History = %v", revs)
	}
	letters, unreadable := 0, error(nil)
	for _, err := range c.Letters(t.Context(), LettersQuery{}) {
		if err != nil {
			unreadable = err
			continue
		}
		letters++
	}
	if letters != 1 || unreadable == nil || !strings.Contains(unreadable.Error(), "2 letters") {
		t.Errorf("Letters = %d, %v", letters, unreadable)
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	ctx := t.Context()
	bad := map[string]func() error{
		"machine": func() error { _, err := c.Start(ctx, "Re.port", nil, StartOptions{}); return err },
		"run id": func() error {
			_, err := c.Start(ctx, "report", nil, StartOptions{ID: strings.Repeat("x", 257)})
			return err
		},
		"version":    func() error { _, err := c.Start(ctx, "report", nil, StartOptions{Version: -1}); return err },
		"not JSON":   func() error { _, err := c.Start(ctx, "report", json.RawMessage("{"), StartOptions{}); return err },
		"json":       func() error { _, err := c.Start(ctx, "report", func() {}, StartOptions{}); return err },
		"control":    func() error { _, err := c.Publish(ctx, "report", nil, StartOptions{ID: "a\nb"}); return err },
		"empty":      func() error { _, err := c.Cancel(ctx, "", CommandOptions{}); return err },
		"for Cancel": func() error { _, err := c.Pause(ctx, "r", CommandOptions{NoUndo: true}); return err },
		"for Retry":  func() error { _, err := c.Pause(ctx, "r", CommandOptions{Effect: "e"}); return err },
		"body":       func() error { _, err := c.Signal(ctx, "r", "approve", "", []byte("x")); return err },
		"name of":    func() error { _, err := c.Finished(ctx, FinishedOptions{Machine: "*"}); return err },
	}
	for want, call := range bad {
		if err := call(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrInvalid: …%s…", err, want)
		}
	}
	for _, o := range []Option{WithPrefix("a.b"), WithUser("a.b"), WithTimeout(0)} {
		if _, err := Connect(n.URL(), o); err == nil {
			t.Error("Connect took a bad option")
		}
	}
}

func TestPublish(t *testing.T) {
	n := natstest.One(t)
	hasty, c := connect(t, n, WithTimeout(brief)), connect(t, n, WithTimeout(natstest.Patience))
	if _, err := hasty.Publish(t.Context(), "report", nil, StartOptions{ID: "r"}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no stream takes pawl.start.report") {
		t.Errorf("Publish without a stream = %v", err)
	}
	js, err := jetstream.New(n.Conn())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWL_START", Subjects: []string{"pawl.start.*"}, MaxMsgSize: 900 << 10, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), "report", strings.Repeat("x", 950<<10), StartOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Publish of 950 KB = %v", err)
	}
	if _, err := c.Publish(t.Context(), "report", strings.Repeat("x", 2<<20), StartOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Publish of 2 MB = %v", err)
	}
	id, err := c.Publish(t.Context(), "report", []byte(`{"a":1}`), StartOptions{ID: "order 17", Version: 3, Priority: High, Tenant: "Ä & Sons"})
	if err != nil || id != "order 17" {
		t.Fatalf("Publish = %q, %v", id, err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Pawl-Run-Id") != id || m.Header.Get("Pawl-Machine-Version") != "3" || string(m.Data) != `{"a":1}` || len(m.Header) != 4 ||
		m.Header.Get("Pawl-Priority") != "high" || m.Header.Get("Pawl-Tenant") != "Ä & Sons" {
		t.Errorf("stored %v %s", m.Header, m.Data)
	}
	for _, o := range []StartOptions{{Priority: "urgent"}, {Tenant: "a\n"}, {Tenant: strings.Repeat("x", 257)}} {
		if _, err := c.Publish(t.Context(), "report", nil, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("Publish with %+v = %v", o, err)
		}
	}
	natstest.Await(t, "a full stream's refusal", func() bool { // an answer may come too late to be the error
		_, err := hasty.Publish(t.Context(), "report", nil, StartOptions{})
		return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), "maximum messages exceeded")
	})
}

// Completions come from the moment of the subscription on, each once, over a
// restart of the server.
func TestFinished(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	if _, err := c.Finished(t.Context(), FinishedOptions{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Finished without a stream = %v", err)
	}
	js, err := jetstream.New(n.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWL_FINISHED", Subjects: []string{"pawl.finished.*"}}); err != nil {
		t.Fatal(err)
	}
	publish := func(machine string, i int) {
		t.Helper()
		body := fmt.Sprintf(`{"run":"r%d","machine":%q,"status":"succeeded","data":{"n":%d}}`, i, machine, i)
		natstest.Await(t, "a stored completion", func() bool {
			_, err := js.Publish(t.Context(), "pawl.finished."+machine, []byte(body))
			return err == nil
		})
	}
	publish("report", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := c.Finished(ctx, FinishedOptions{Machine: "report"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Finished(ctx, FinishedOptions{After: 1}) // never ranged over
	if err != nil || all == nil {
		t.Fatal(err)
	}
	n.Stop() // before the first has come
	n.Start()
	publish("invoice", 1)
	publish("report", 2)
	publish("report", 3)
	var got []string
	for e, err := range events {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Finished yields %v", err)
			}
			break
		}
		if got = append(got, e.Run); len(got) == 2 {
			if e.Status != StatusSucceeded || e.Sequence != 4 || string(e.Data) != `{"n":3}` {
				t.Errorf("completion %+v", e)
			}
			cancel()
		}
	}
	if !slices.Equal(got, []string{"r2", "r3"}) {
		t.Errorf("Finished = %v, want r2 and r3", got)
	}
}

func TestCommandsSayWhatTheyWant(t *testing.T) {
	n := natstest.One(t)
	c := connect(t, n)
	s := newStub(t, n)
	for v, call := range map[api.Verb]func(context.Context, string, CommandOptions) (Told, error){
		api.RunsCancel: c.Cancel, api.RunsTerminate: c.Terminate, api.RunsPause: c.Pause, api.RunsResume: c.Resume, api.RunsRetry: c.Retry,
	} {
		s.on(v, func(body []byte) any {
			var r api.CommandRequest
			_ = json.Unmarshal(body, &r)
			if r.ID != "r" || r.RequestID == "" || r.By != "ann" || r.Reason != "a test" || *r.Timeout <= 0 || *r.Timeout >= statemachine.Duration(c.once()) {
				t.Errorf("%s: %s", v, body)
			}
			return api.Told{ID: "r", RequestID: r.RequestID, Outcome: Applied, Status: StatusRunning, Revision: 7}
		})
		got, err := call(t.Context(), "r", CommandOptions{By: "ann", Reason: "a test"})
		if err != nil || got.Outcome != Applied || got.Revision != 7 {
			t.Errorf("%s = %+v, %v", v, got, err)
		}
	}
}
