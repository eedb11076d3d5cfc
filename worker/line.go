package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/crash"
	"github.com/pawlrun/pawl/queue"
)

// Starts that can begin now begin. When no slot is free, or very many wait, or
// others wait in line, a start goes in the line of its priority and of its class,
// which tells how many its tenant has there already: so what waits is sorted, and
// what is free is dealt out among the lines in weighted turns.
//
//	start ──▶ intake ── if it can begin ──────────▶ lanes
//	             └────▶ lines ──▶ dealer, by turns ──▶ lanes

const (
	consumerStart = "start"
	lineWait      = 5 * time.Second       // for a start in a line that is empty
	sortBatches   = 4                     // starts that are sorted together
	sortPause     = 50 * time.Millisecond // before more starts are sorted, if there were none
	lineStep      = 4                     // how many times more turns a line has than the next

	// So many starts that wait for so long are a backlog, whatever the slots: the
	// lanes do not come to them.
	manyWait = 1000
	longWait = time.Second
)

// line is one line, as this worker sees it.
type line struct {
	queue.Line
	group  *group
	weight float64
	pass   float64 // of its turns within the group
	busy   bool    // somebody waits there, as far as is known
}

// group is the lines of one priority.
type group struct {
	weight float64
	pass   float64 // of its turns among the groups
	now    float64 // pass of its line whose turn was last
	busy   int     // lines
}

// lines says whose turn it is. Turns are by weight: of those who have something,
// the one comes next that was dealt the least for its weight, since the time
// when it had nothing. First among the priorities, then among the lines of one.
type lines struct {
	mu      sync.Mutex
	all     []*line
	groups  []*group
	now     float64       // pass of the group whose turn was last
	changed chan struct{} // closed and replaced when a line becomes busy, or is so no more
}

func newLines() *lines {
	ls := &lines{changed: make(chan struct{})}
	for _, p := range queue.Lines() {
		if p.Class == 1 {
			ls.groups = append(ls.groups, &group{})
		}
		l := &line{Line: p, group: ls.groups[len(ls.groups)-1], weight: 1}
		for range queue.Classes - p.Class {
			l.weight *= lineStep
		}
		ls.all = append(ls.all, l)
	}
	weight := 1.0
	for i := len(ls.groups) - 1; i >= 0; i-- {
		ls.groups[i].weight, weight = weight, weight*lineStep
	}
	return ls
}

// of returns a line.
func (ls *lines) of(q queue.Line) *line {
	return ls.all[slices.IndexFunc(ls.all, func(l *line) bool { return l.Line == q })]
}

// set notes that somebody waits in a line, or nobody.
func (ls *lines) set(l *line, busy bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.busy == busy {
		return
	}
	l.busy = busy
	if g := l.group; busy {
		if g.busy++; g.busy == 1 {
			g.pass = max(g.pass, ls.now) // what was not used is not owed
		}
		l.pass = max(l.pass, g.now)
	} else {
		g.busy--
	}
	close(ls.changed)
	ls.changed = make(chan struct{})
}

// next returns the line whose turn it is, and how many of n it is dealt. Some
// line must be busy.
func (ls *lines) next(n int) (*line, int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var g *group
	var l *line
	groups, share := 0.0, 0.0 // the weights of those that are busy
	for _, o := range ls.groups {
		if o.busy == 0 {
			continue
		}
		if groups += o.weight; g == nil || o.pass < g.pass {
			g = o
		}
	}
	for _, o := range ls.all {
		if !o.busy || o.group != g {
			continue
		}
		if share += o.weight; l == nil || o.pass < l.pass {
			l = o
		}
	}
	ls.now, g.now = g.pass, l.pass
	return l, max(1, int(float64(n)*g.weight/groups*l.weight/share))
}

// dealt notes how many a line was dealt.
func (ls *lines) dealt(l *line, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.group.pass += float64(n) / l.group.weight
	l.pass += float64(n) / l.weight
}

// busy reports whether somebody waits in any line.
func (ls *lines) busy() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.ContainsFunc(ls.groups, func(g *group) bool { return g.busy > 0 })
}

// until waits until a condition on the lines holds; false if ctx ended first.
func (ls *lines) until(ctx context.Context, holds func() bool) bool {
	for {
		ls.mu.Lock()
		changed := ls.changed
		ls.mu.Unlock()
		if holds() {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// isBusy reports whether somebody waits in a line.
func (ls *lines) isBusy(l *line) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.busy
}

// backlog tells since when very many starts have waited.
type backlog struct{ since time.Time }

// note learns from what was fetched how many more wait.
func (b *backlog) note(messages []queue.Message, now time.Time) {
	if n := len(messages); n == 0 || messages[n-1].Behind < manyWait {
		b.since = time.Time{}
	} else if b.since.IsZero() {
		b.since = now
	}
}

// is reports whether there is one.
func (b *backlog) is(now time.Time) bool { return !b.since.IsZero() && now.Sub(b.since) >= longWait }

// intake takes starts as they come: to the lanes, or to the lines.
func (w *Worker) intake(ctx context.Context) {
	c := consumer{name: consumerStart, gate: w.starts}
	use := newUsage(time.Now())
	var waits backlog
	defer w.giveBack(c)
	for w.pulls(ctx, c) {
		slots := 0
		if !w.lines.busy() && !waits.is(time.Now()) {
			slots = w.starts.try(w.cfg.Batch)
		}
		if slots > 0 {
			messages := w.fetch(ctx, c.name, slots, 2*time.Second)
			w.starts.put(slots - len(messages))
			waits.note(messages, time.Now())
			if !w.handAll(ctx, c.gate, messages) {
				return
			}
			continue
		}
		// What is there now, nobody else has a slot for: the pull of a worker that
		// has would have taken it.
		messages := w.fetch(ctx, c.name, sortBatches*w.cfg.Batch, 0)
		waits.note(messages, time.Now())
		if !w.lineUp(ctx, use, messages) || len(messages) == 0 && !rest(ctx, sortPause) {
			return
		}
	}
}

// lineUp puts starts in their lines. One that cannot be put there, as when the
// stream is full, waits here until it can, or until a slot is free. False if a
// stop began.
func (w *Worker) lineUp(ctx context.Context, use *usage, messages []queue.Message) bool {
	var wait []queue.Message
	var in []queue.Line
	for _, m := range messages {
		if m.Fault != nil { // a letter
			w.starts.put(-1)
			w.hand(ctx, w.starts, m)
			continue
		}
		wait = append(wait, m)
		in = append(in, queue.Line{Priority: m.Priority, Class: use.class(m.Priority, m.Tenant, time.Now())})
	}
	for len(wait) > 0 {
		errs := w.ports.Source.LineUp(ctx, wait, in)
		var left []queue.Message
		var leftIn []queue.Line
		for i, err := range errs {
			if err == nil {
				_ = crash.Point("line.put")
				_ = wait[i].Ack() // if that is lost, it comes again and is the same start
				w.metrics.lined[in[i]].Inc()
				w.lines.set(w.lines.of(in[i]), true)
				continue
			}
			if !errors.Is(err, ErrFull) && !errors.Is(err, ErrTooLarge) && ctx.Err() == nil {
				w.trouble(onNATS, err)
			}
			left, leftIn = append(left, wait[i]), append(leftIn, in[i])
		}
		n := 0
		if len(left) > 0 {
			n = w.starts.try(len(left))
		}
		if !w.handAll(ctx, w.starts, left[:n]) || len(left) > n && !rest(ctx, w.cfg.beat()/2) {
			w.nakAll(left[n:])
			return false
		}
		wait, in = left[n:], leftIn[n:]
		for _, m := range wait {
			_ = m.Beat()
		}
	}
	return true
}

// deal deals free slots out among the lines.
func (w *Worker) deal(ctx context.Context) {
	for w.lines.until(ctx, w.lines.busy) && w.health.well(ctx) {
		slots := w.starts.take(ctx, w.cfg.Batch)
		if slots == 0 {
			return
		}
		l, n := w.lines.next(slots)
		w.starts.put(slots - n)
		messages := w.fetch(ctx, l.Consumer(), n, 0)
		w.starts.put(n - len(messages))
		w.lines.dealt(l, len(messages))
		if len(messages) < n {
			w.lines.set(l, false)
		}
		if !w.handAll(ctx, w.starts, messages) {
			return
		}
	}
}

// watch waits for the first start in a line that is empty. It takes one whether
// a slot is free or not: at most one for each line, since the line is empty
// again only when a free slot found nobody.
func (w *Worker) watch(ctx context.Context, l *line) {
	c := consumer{name: l.Consumer(), gate: w.starts}
	defer w.giveBack(c)
	for w.lines.until(ctx, func() bool { return !w.lines.isBusy(l) }) && w.pulls(ctx, c) {
		messages := w.fetch(ctx, c.name, 1, lineWait)
		if len(messages) == 0 {
			continue
		}
		w.starts.put(-len(messages))
		w.lines.set(l, true)
		if !w.handAll(ctx, c.gate, messages) {
			return
		}
	}
}

// pulls waits until a queue may be pulled from; false if ctx ended first.
func (w *Worker) pulls(ctx context.Context, c consumer) bool {
	if w.health.away() {
		w.giveBack(c) // nothing lies here meanwhile
	}
	return w.health.well(ctx) && w.unpaused(ctx, c)
}

// fetch fetches messages, and says if that does not work. There may be some all
// the same.
func (w *Worker) fetch(ctx context.Context, name string, n int, wait time.Duration) []queue.Message {
	messages, err := w.ports.Source.Fetch(ctx, name, n, wait)
	if err != nil && ctx.Err() == nil {
		w.trouble(onNATS, fmt.Errorf("fetch from %s: %w", name, err))
	}
	return messages
}

// handAll gives messages to their lanes; false if a stop began.
func (w *Worker) handAll(ctx context.Context, g *gate, messages []queue.Message) bool {
	for i, m := range messages {
		if !w.hand(ctx, g, m) {
			w.nakAll(messages[i:]) // at once
			g.put(len(messages) - i)
			return false
		}
	}
	return true
}

func (w *Worker) nakAll(messages []queue.Message) {
	for _, m := range messages {
		_ = m.Nak(0)
	}
}
