package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// MaxReasons is how many reasons an explanation has. A run may wait for more
// effects than anybody reads about.
const MaxReasons = 50

// Of says why a run does not move.
func Of(f *Facts) *Explanation {
	x := &Explanation{Run: f.Run, Unseen: f.Unseen}
	r := f.Record
	switch {
	case f.Strange != "":
		x.add(Reason{Code: NewerFormat, Text: "its last record cannot be read by this build, so a newer one made it: " + f.Strange, Help: "pawl worker ls"})
	case r == nil:
		f.absent(x)
	default:
		x.Machine, x.Version, x.State, x.Status, x.Revision, x.Since = r.Machine, r.Version, r.To, r.Status, r.Rev, r.At
		f.run(x)
	}
	slices.SortStableFunc(x.Because, func(a, b Reason) int { return cmp.Compare(rank(a.Code), rank(b.Code)) })
	x.Cause = x.Because[0].Code
	if n := len(x.Because) - MaxReasons; n > 0 {
		x.Because, x.More = x.Because[:MaxReasons], n
	}
	return x
}

func (x *Explanation) add(r Reason) { x.Because = append(x.Because, r) }

// rank orders codes: what stops everything, then what waits for a person, then
// what seems to be wrong, and last what takes its course.
func rank(c Code) int {
	order := [...][]Code{
		{NotFound, StartRefused, NewerFormat, Ended},
		{Paused},
		{StreamFull, NoWorkers, NotReady, NoMachine},
		{StartWaits, EventWaits},
		{GivenUp, EffectPaused, StatePaused, NoHandler},
		{KeyHeld, OwnerLost, Lost, Again, Unclaimed, Elsewhere},
		{KeyClosed, Limited, Throttled, Retry, RetryDue, Accepted},
		{InQueue, Delivered, Inline, Performing},
		{Held, NothingToWait},
	}
	i := slices.IndexFunc(order[:], func(codes []Code) bool { return slices.Contains(codes, c) })
	if i < 0 {
		return len(order)
	}
	return i
}

// run explains a run that has a record.
func (f *Facts) run(x *Explanation) {
	r := f.Record
	if r.Status.Ended() || r.Tomb != nil {
		e := Reason{Code: Ended, Text: "it has ended: " + string(r.Status), Since: r.At, Error: r.Cause, Help: "pawl run result " + word(f.Run)}
		if r.Cause != nil {
			e.Text += ", " + causeText(r.Cause)
		}
		if r.Tomb != nil {
			e.Text, e.Help = e.Text+"; its records were removed", ""
		}
		x.add(e)
		return
	}
	if r.Status == statemachine.StatusPaused {
		p := Reason{Code: Paused, Text: "it is paused", Since: r.At, Error: r.Cause, Help: "pawl run resume " + word(f.Run)}
		if r.Cause != nil {
			p.Text += by(r.Cause.By)
			if r.Cause.Message != "" {
				p.Text += ": " + r.Cause.Message
			}
		}
		x.add(p)
	}
	f.told(x)
	for i := range r.Pending {
		x.add(f.effect(&r.Pending[i]))
	}
	if len(r.Pending) == 0 {
		x.add(Reason{Code: NothingToWait, Text: "nothing is pending in state " + r.To, Since: r.At, Help: "pawl run show " + word(f.Run)})
	}
	f.stopped(x)
}

// told lists what the run was told and has not applied.
func (f *Facts) told(x *Explanation) {
	for _, m := range f.Told {
		what := cmp.Or(m.Kind, "message") + " " + m.Name
		e := Reason{Code: EventWaits, Text: fmt.Sprintf("a %s is stored and not applied yet", what), Alone: true, Since: m.Stored, Message: &m}
		switch m.Place {
		case Postponed:
			e.Text = fmt.Sprintf("a %s could not be taken, and comes again", what)
			e.Until = m.Due
		case InHand:
			e.Text = fmt.Sprintf("a %s is in a worker's hands", what)
		}
		x.add(e)
	}
}

// stopped adds what keeps workers from doing what would go on by itself.
func (f *Facts) stopped(x *Explanation) {
	if !f.letterWaits() && !slices.ContainsFunc(x.Because, func(r Reason) bool { return r.Alone }) {
		return
	}
	var stops []Reason
	for _, s := range f.Full {
		if s.Letters && !f.letterWaits() {
			continue
		}
		stops = append(stops, Reason{Code: StreamFull, Text: fmt.Sprintf("stream %s is full (%s): the run goes on when it has room", s.Name, s.What), Help: "pawl doctor"})
	}
	switch ready := slices.IndexFunc(f.Workers, func(w Worker) bool { return w.Ready }); {
	case f.Workers == nil:
	case len(f.Workers) == 0:
		stops = append(stops, Reason{Code: NoWorkers, Text: "no worker answers: the first that starts goes on with it", Help: "start a worker; pawl doctor looks at what it needs"})
	case ready < 0:
		stops = append(stops, Reason{Code: NotReady, Text: fmt.Sprintf("%s, and none is ready: what they need is away", workers(len(f.Workers))), Help: "pawl doctor"})
	default:
		if r := f.Record; r != nil && f.nobody(func(w Worker) []string { return w.Machines }, r.Machine+"@"+strconv.Itoa(r.Version)) {
			stops = append(stops, Reason{
				Code: NoMachine, Text: fmt.Sprintf("%s, and none has %s version %d: the run waits for one that has", workers(len(f.Workers)), r.Machine, r.Version),
				Help: "deploy a worker that has " + r.Machine + " version " + strconv.Itoa(r.Version) + "; pawl machine show " + r.Machine,
			})
		}
	}
	if len(stops) == 0 {
		return
	}
	for i := range x.Because {
		x.Because[i].Alone = false
	}
	x.Because = append(stops, x.Because...)
}

// letterWaits reports whether the last record has a letter that is not stored.
func (f *Facts) letterWaits() bool {
	return f.Record != nil && slices.ContainsFunc(f.Record.Pending, func(p statemachine.Pending) bool {
		_, stored := f.Letters[p.ID]
		return p.Place == statemachine.Parked && p.Rev == f.Record.Rev && f.Letters != nil && !stored
	})
}

// nobody reports whether all workers say what they can do, and none can this.
func (f *Facts) nobody(can func(Worker) []string, what string) bool {
	for _, w := range f.Workers {
		if list := can(w); list == nil || slices.Contains(list, what) {
			return false
		}
	}
	return len(f.Workers) > 0
}

// absent explains why there is no run.
func (f *Facts) absent(x *Explanation) {
	switch l, refused := f.Letters[""]; {
	case refused:
		e := Reason{Code: StartRefused, Text: "its start was refused: " + l.Class + ": " + l.Cause, Since: l.At, Letter: l.Seq, Help: show(l.Seq)}
		x.add(e)
		return
	case f.Starts != nil && f.Starts.Postponed != nil:
		m := f.Starts.Postponed
		x.add(Reason{Code: StartWaits, Text: "no worker could take its start yet: it comes again", Alone: true, Since: m.Stored, Until: m.Due, Message: m, Help: "pawl worker ls"})
	case f.startsWait() > 0:
		x.add(Reason{
			Code: StartWaits, Alone: true, Since: f.Starts.Oldest,
			Text: fmt.Sprintf("there is no such run, and %d starts wait to be taken: its own may be one of them", f.startsWait()),
			Help: "pawl worker ls",
		})
	default:
		x.add(Reason{Code: NotFound, Text: "there is no such run, and no start or letter of it"})
	}
	f.told(x)
	f.stopped(x)
}

// startsWait is how many starts may be those of runs that are not there yet. A
// start that a worker has in hand is, if the worker lives, that of a run that
// is.
func (f *Facts) startsWait() uint64 {
	switch {
	case f.Starts == nil:
		return 0
	case len(f.Workers) == 0:
		return f.Starts.Waiting + f.Starts.InHand
	}
	return f.Starts.Waiting
}

// effect explains a pending effect.
func (f *Facts) effect(p *statemachine.Pending) Reason {
	e := Reason{Effect: p.Effect, EffectID: p.ID, Key: p.Key, Place: p.Place, Attempt: p.Attempt, Try: p.Try, Since: p.At, Error: p.Cause}
	if m, ok := f.Wakes[p.ID]; ok {
		e.Message = &m
	}
	switch p.Place {
	case statemachine.Parked:
		f.parked(&e, p)
	case statemachine.Held:
		e.Code, e.Text, e.Help = Held, p.Effect+" is held until the run is resumed", "pawl run resume "+word(f.Run)
	case statemachine.Retry:
		f.retry(&e, p)
	case statemachine.Queued, statemachine.Inline:
		f.due(&e, p)
	default:
		e.Code, e.Text = Elsewhere, fmt.Sprintf("%s waits: its place is %s, which this build does not know", p.Effect, p.Place)
		e.Help = "pawl run show " + word(f.Run)
	}
	return e
}

func (f *Facts) parked(e *Reason, p *statemachine.Pending) {
	e.Code, e.Help = GivenUp, "pawl run retry "+word(f.Run)
	e.Text = fmt.Sprintf("%s was given up at attempt %d", p.Effect, p.Attempt)
	if p.Cause != nil {
		e.Text += ": " + causeText(p.Cause)
	}
	l, known := f.Letters[p.ID]
	switch e.Letter = l.Seq; {
	case known && l.Seq == 0:
		e.Text += " (its letter was taken out)"
	case known:
		e.Text += fmt.Sprintf(" (letter %d)", l.Seq)
	}
}

// retry explains an effect that waits for its next try.
func (f *Facts) retry(e *Reason, p *statemachine.Pending) {
	e.Code, e.Alone = Retry, true
	e.Text = fmt.Sprintf("%s waits for attempt %d", p.Effect, p.Attempt)
	if p.Accepted() && p.RetryAt.After(f.Now) {
		e.Code, e.Until = Accepted, *p.RetryAt
		e.Text = fmt.Sprintf("%s was accepted by who performs it, who tells the result later; without a word until then, the attempt has failed", p.Effect)
		return
	}
	switch k, keyed := f.Keys[p.ID]; {
	case keyed && !k.Done:
		e.Code, e.Holder = KeyHeld, k.Run
		e.Text = fmt.Sprintf("%s waits for its key %q, which run %q holds", p.Effect, p.Key, k.Run)
		e.Help = "pawl run explain " + word(k.Run)
	case f.putOff(p):
		e.Code = Throttled
		e.Text = fmt.Sprintf("%s was put off by who performs it, which spent no attempt", p.Effect)
	}
	if p.Cause != nil && e.Code != KeyHeld {
		e.Text += ", after " + causeText(p.Cause)
	}
	if p.RetryAt == nil {
		return
	}
	if e.Until = *p.RetryAt; e.Until.After(f.Now) {
		if e.Message != nil && e.Message.Place == Missing {
			e.Text += "; its schedule is nowhere: the sweeper arms it again"
		}
		return
	}
	if e.Code == Retry || e.Code == Throttled {
		e.Code = RetryDue
	}
	e.Until = time.Time{}
	switch m := e.Message; {
	case m == nil:
		e.Text += "; its time has come"
	case m.Place == Missing:
		e.Code = Lost
		e.Text += "; its time has come, and its message is nowhere: the sweeper sends it again"
	case m.Place == Scheduled:
		e.Text += "; its time has come, and the broker has not sent its message yet"
	case m.Place == Postponed:
		e.Code, e.Until = Again, m.Due
		e.Text += "; its time has come, a worker could not take its message, which comes again"
		e.Help = "pawl worker ls"
	default:
		e.Text += "; its time has come, and its message waits for a worker"
	}
}

// putOff reports whether the last try of p spent no attempt, as far as the last
// record tells.
func (f *Facts) putOff(p *statemachine.Pending) bool {
	return slices.ContainsFunc(f.Record.Events, func(e statemachine.Event) bool {
		return e.Kind == statemachine.EventFailure && e.Effect == p.ID && e.Free
	})
}

// due explains an effect that is to be performed now.
func (f *Facts) due(e *Reason, p *statemachine.Pending) {
	e.Alone = true
	if c, held := f.Claims[p.ID]; held && c.Left > 0 {
		e.Holder, e.Lease = c.Owner, f.Now.Add(c.Left)
		if f.gone(c.Owner) {
			e.Code, e.Until = OwnerLost, e.Lease
			e.Text = fmt.Sprintf("worker %s had begun %s and answers no more: another goes on when its lease is over", c.Owner, p.Effect)
			return
		}
		e.Code = Performing
		e.Text = fmt.Sprintf("worker %s performs %s, attempt %d", c.Owner, p.Effect, p.Attempt)
		e.Help = "pawl run cancel " + word(f.Run)
		return
	}
	if h, held := f.Holds[p.ID]; held {
		f.hold(e, p, h)
		return
	}
	if f.nobody(func(w Worker) []string { return w.Effects }, p.Effect) {
		e.Code, e.Alone = NoHandler, false
		e.Text = fmt.Sprintf("%s, and none performs %s", workers(len(f.Workers)), p.Effect)
		e.Help = "deploy a worker that performs " + p.Effect
		return
	}
	if p.Place == statemachine.Inline {
		f.inline(e, p)
		return
	}
	m := e.Message
	if limit, limited := f.Limits[p.Effect]; limited && m != nil && m.Place != Missing {
		e.Code, e.Until = Limited, m.Due
		e.Text = fmt.Sprintf("%s waits for its turn: the fleet's limits of it are %s", p.Effect, limit)
		return
	}
	switch {
	case m == nil:
		e.Code, e.Text = InQueue, p.Effect+" waits in its queue"
	case m.Place == Missing:
		e.Code, e.Text = Lost, p.Effect+" is asked for, and its message is nowhere: it is about to be sent, or the sweeper sends it again"
	case m.Place == Postponed:
		e.Code, e.Until, e.Help = Again, m.Due, "pawl worker ls"
		e.Text = p.Effect + " waits: a worker had its message and lacks what the run needs; it comes again"
	case m.Place == InHand:
		e.Code = Delivered
		e.Text = p.Effect + " waits: a worker has its message, and has not begun"
		if f.Claims == nil {
			e.Text = p.Effect + " is in a worker's hands"
		}
		if m.Again > 0 {
			e.Text += fmt.Sprintf("; after %v without a sign of life it is given to another", m.Again)
		}
	default:
		e.Code = InQueue
		e.Text = p.Effect + " waits in its queue"
		if m.Ahead > 0 {
			e.Text += fmt.Sprintf(", at most %d before it", m.Ahead)
		}
		if m.Pulls == 0 {
			e.Text += "; no worker asks for more of this type at the moment"
		}
	}
}

// hold explains an effect that flow control keeps from beginning. What was
// under way then goes on, so there is no claim on it.
func (f *Facts) hold(e *Reason, p *statemachine.Pending, h Hold) {
	e.Code, e.Since, e.Until = h.Code, h.Since, h.Until
	e.Alone = h.Code == KeyClosed
	e.Text = fmt.Sprintf("%s may not begin: %s", p.Effect, h.What)
	if e.Alone {
		e.Text += " is closed" + by(h.By)
	} else {
		e.Text += " is paused" + by(h.By)
	}
	if h.Reason != "" {
		e.Text += ": " + h.Reason
	}
}

// inline explains an effect that the worker performs which committed it.
func (f *Facts) inline(e *Reason, p *statemachine.Pending) {
	owner := ""
	if p.Rev == f.Record.Rev {
		owner = f.Record.By
	}
	e.Holder = owner
	switch {
	case f.Claims == nil && owner != "" && f.gone(owner):
		e.Code = OwnerLost
		e.Text = fmt.Sprintf("worker %s was to perform %s and answers no more: another goes on when its message comes again", owner, p.Effect)
	case f.Claims == nil:
		e.Code = Inline
		e.Text = fmt.Sprintf("%s is performed by the worker that asked for it%s", p.Effect, by(owner))
	default:
		e.Code, e.Holder = Unclaimed, ""
		e.Text = fmt.Sprintf("nobody performs %s: it goes on when its message comes again, or the sweeper finds it", p.Effect)
	}
}

// gone reports whether a worker is known to answer no more.
func (f *Facts) gone(owner string) bool {
	return f.Workers != nil && !slices.ContainsFunc(f.Workers, func(w Worker) bool { return w.ID == owner || queue.Token(w.ID) == owner })
}

func workers(n int) string {
	if n == 1 {
		return "one worker answers"
	}
	return fmt.Sprintf("%d workers answer", n)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func causeText(c *statemachine.Cause) string {
	if c.Message == "" {
		return c.Class
	}
	return c.Class + ": " + c.Message
}
