package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/logkey"
)

// Caller is who asks.
type Caller struct {
	User     string // "" if nobody is named
	Verified bool   // the server's permissions vouch for User
	Role     Role   // what the request was allowed as
}

// Unverified begins the name, in a record, of who gave a command, if it is only
// what the caller claimed.
const Unverified = "unverified:"

// recorded is who a record says gave a command: the caller, or who a caller
// whom nobody vouches for says they are.
func (c Caller) recorded(claimed string) string {
	if c.Verified {
		return c.User
	}
	if claimed == "" {
		return ""
	}
	return Unverified + claimed
}

// ServerOptions say how a Server answers. Zero values mean the default.
type ServerOptions struct {
	// Authorise says why a caller may not have a verb. It is asked once for
	// each request, before it is read, and its error is told to the caller.
	// Default: what came in is allowed.
	Authorise func(ctx context.Context, c Caller, verb string) error
	Logger    *slog.Logger // default: discards

	Reads   int           // reads under way at once; default 64, and 32 times as many wait for their turn
	Changes int           // starts, signals and commands at once; default 512
	Waits   int           // waits at once; default 2,048
	Scans   int           // lists from HISTORY at once, each a read of the whole fleet, and comparisons of runs; default 2
	Letters int           // pages of letters changed at once, each 64 letters at a time; default 4
	Timeout time.Duration // of a read; default 5 s
}

func (o ServerOptions) withDefaults() ServerOptions {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.Reads, 64)
	set(&o.Changes, 512)
	set(&o.Waits, 2048)
	set(&o.Scans, 2)
	set(&o.Letters, 4)
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Authorise == nil {
		o.Authorise = func(context.Context, Caller, string) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server answers requests, whatever carries them. It may be used concurrently.
type Server struct {
	answers *Answers
	opts    ServerOptions
	verbs   map[Verb]action
	scans   *lanes
	watch   *watchers
	hurry   context.Context // ended: who waits is answered at once
	stop    context.CancelFunc
}

// action is how a verb is carried out.
type action struct {
	lanes *lanes
	most  int // bytes of the request
	do    func(ctx context.Context, c Caller, body []byte) (any, error)
}

// NewServer returns a server of the answers that a can make.
func NewServer(a *Answers, o ServerOptions) *Server {
	o = o.withDefaults()
	s := &Server{answers: a, opts: o, scans: newLanes(o.Scans, 0)}
	s.watch = newWatchers(a, s.fault)
	s.hurry, s.stop = context.WithCancel(context.Background())
	reads, changes, waits := newLanes(o.Reads, 32*o.Reads), newLanes(o.Changes, 0), newLanes(o.Waits, 0)
	letters, diffs := newLanes(o.Letters, 8*o.Letters), newLanes(o.Scans, 8*o.Scans)
	s.verbs = map[Verb]action{
		RunsGet:        {reads, maxRequest, on(timed(s, s.getRun))},
		RunsList:       {reads, maxRequest, on(timed(s, s.listRuns))},
		RunsHistory:    {reads, maxRequest, on(timed(s, s.history))},
		RunsWait:       {waits, maxRequest, on(s.wait)},
		RunsExplain:    {reads, maxRequest, on(timed(s, s.explain))},
		RunsReplay:     {reads, maxRequest, on(timed(s, s.replay))},
		RunsDiff:       {diffs, maxRequest, on(timed(s, s.diff))},
		RunsAsk:        {reads, maxRequest, on(timed(s, s.query))},
		RunsStart:      {changes, maxInput, on(s.start)},
		RunsSignal:     {changes, maxInput, on(s.signal)},
		RunsUpdate:     {changes, maxInput, on(s.update)},
		RunsFork:       {changes, maxInput, on(s.fork)},
		RunsConfirm:    {changes, maxRequest, on(s.command(RunsConfirm))},
		RunsCancel:     {changes, maxRequest, on(s.command(RunsCancel))},
		RunsTerminate:  {changes, maxRequest, on(s.command(RunsTerminate))},
		RunsPause:      {changes, maxRequest, on(s.command(RunsPause))},
		RunsResume:     {changes, maxRequest, on(s.command(RunsResume))},
		RunsRetry:      {changes, maxRequest, on(s.command(RunsRetry))},
		RunsResolve:    {changes, maxRequest, on(s.command(RunsResolve))},
		MachinesList:   {reads, maxRequest, on(timed(s, s.listMachines))},
		MachinesGet:    {reads, maxRequest, on(timed(s, s.getMachine))},
		LettersList:    {reads, maxRequest, on(timed(s, s.listLetters))},
		LettersGet:     {reads, maxRequest, on(timed(s, s.getLetter))},
		LettersPlan:    {letters, maxRequest, on(s.change(LettersPlan))},
		LettersRedrive: {letters, maxRequest, on(s.change(LettersRedrive))},
		LettersDiscard: {letters, maxRequest, on(s.change(LettersDiscard))},
		StreamsGet:     {reads, maxRequest, on(timed(s, s.listStreams))},
		FlowGet:        {reads, maxRequest, on(timed(s, s.listFlow))},
		FlowHold:       {changes, maxRequest, on(s.hold(true))},
		FlowRelease:    {changes, maxRequest, on(s.hold(false))},
		BlobsGet:       {reads, maxRequest, on(timed(s, s.getBlob))},
	}
	s.verbs[ApprovalsGet] = action{reads, maxRequest, on(timed(s, s.getApproval))}
	s.verbs[ApprovalsDecide] = action{changes, maxRequest, on(s.decide(ApprovalsDecide))}
	s.verbs[ApprovalsDelegate] = action{changes, maxRequest, on(s.decide(ApprovalsDelegate))}
	return s
}

const (
	maxRequest = 64 << 10
	maxInput   = 1 << 20 // the input itself may have less, see maxBody
)

// Do answers a request. The error is always an *Error. A fault in here is
// logged and answered, and harms no other request.
func (s *Server) Do(ctx context.Context, c Caller, v Verb, body []byte) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, s.fault(string(v), p)
		}
	}()
	a, ok := s.verbs[v]
	if !ok {
		return nil, errorf(ClassNotFound, "no verb is called %s", quoted(string(v)))
	}
	if c.Role != v.Role() {
		return nil, errorf(ClassForbidden, "%s needs the role %s", v, v.Role())
	}
	if err := s.opts.Authorise(ctx, c, string(v)); err != nil {
		return nil, errorf(ClassForbidden, "%s is not allowed: %s", v, err)
	}
	if len(body) > a.most {
		return nil, errorf(ClassTooLarge, "the request has %d bytes, over %d", len(body), a.most)
	}
	if err := a.lanes.enter(ctx); err != nil {
		return nil, err
	}
	defer a.lanes.leave()
	out, err := a.do(ctx, c, body)
	if err != nil {
		return nil, ErrorOf(err)
	}
	if answer, err = encode(out); err != nil {
		return nil, errorf(ClassInternal, "encode the answer of %s: %s", v, err)
	}
	if len(answer) > MaxAnswer {
		return nil, errorf(ClassTooLarge, "the answer has %d bytes, over %d: ask for less", len(answer), MaxAnswer)
	}
	return answer, nil
}

// fault logs a panic, and is what whoever asked is told of it.
func (s *Server) fault(what string, p any) *Error {
	s.opts.Logger.Error("a request brought out a fault", logkey.Name, what, logkey.Cause, fmt.Sprint(p), logkey.Stack, string(debug.Stack()))
	return errorf(ClassInternal, "%s: a fault of the server, see its log", what)
}

// Hurry has everything that waits be answered at once with what there is, now
// and from now on.
func (s *Server) Hurry() { s.stop() }

// Close returns when nothing is left running. The caller has waited for the
// requests.
func (s *Server) Close() {
	s.stop()
	s.watch.eyes.Wait()
}

// on makes an action of a function of a request.
func on[Q, A any](f func(context.Context, Caller, *Q) (*A, error)) func(context.Context, Caller, []byte) (any, error) {
	return func(ctx context.Context, c Caller, body []byte) (any, error) {
		q := new(Q)
		if err := decode(body, q); err != nil {
			return nil, err
		}
		a, err := f(ctx, c, q)
		if err != nil {
			return nil, err
		}
		return a, nil
	}
}

// timed gives a read its time.
func timed[Q, A any](s *Server, f func(context.Context, *Q) (*A, error)) func(context.Context, Caller, *Q) (*A, error) {
	return func(ctx context.Context, _ Caller, q *Q) (*A, error) {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		return f(ctx, q)
	}
}

// encode is the JSON of an answer. Text is left as it is: it is for programs,
// not for a page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// lanes bound how many requests of a kind are under way, and how many wait.
type lanes struct {
	free  chan struct{} // size: how many are under way at once
	queue int64         // how many wait for their turn, at most
	held  atomic.Int64  // under way or waiting
}

func newLanes(n, queue int) *lanes {
	return &lanes{free: make(chan struct{}, n), queue: int64(queue)}
}

// enter waits for a turn; it returns ClassBusy if too many wait already.
func (l *lanes) enter(ctx context.Context) error {
	if n := l.held.Add(1); n > int64(cap(l.free))+l.queue {
		l.held.Add(-1)
		return errorf(ClassBusy, "too many requests of this kind at once (%d): ask again", n-1)
	}
	select {
	case l.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.held.Add(-1)
		return errorf(ClassBusy, "no turn came: %s", context.Cause(ctx))
	}
}

func (l *lanes) leave() {
	<-l.free
	l.held.Add(-1)
}
