package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

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
		{GivenUp, Unconfirmed, InDoubt, Crashed, UndoGivenUp, EffectPaused, StatePaused, NoHandler},
		{KeyHeld, OwnerLost, Lost, Again, Unclaimed, Elsewhere},
		{KeyClosed, Limited, Unverified, Throttled, Retry, UndoRetry, RetryDue, Accepted, AwaitsChild, AwaitsSignal, AwaitsPeople, Sleeping, WaitDue},
		{InQueue, Delivered, Inline, Verifying, Performing, Undoing},
		{Held, NothingToWait, Bounded},
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
			p.Holder, p.Text = r.Cause.By, p.Text+by(r.Cause.By)
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
	for i := range r.Waits {
		x.add(f.wait(&r.Waits[i]))
	}
	if len(r.Pending)+len(r.Waits) == 0 {
		x.add(Reason{Code: NothingToWait, Text: "nothing is pending in state " + r.To, Since: r.At, Help: "pawl run show " + word(f.Run)})
	}
	f.stopped(x)
}

// told lists what the run was told and has not applied.
func (f *Facts) told(x *Explanation) {
	for _, m := range f.Told {
		what := cmp.Or(m.Kind, "message") + " " + m.Name
		e := Reason{Code: EventWaits, Text: fmt.Sprintf("a %s is stored and not applied yet", what), Alone: true, Since: m.Stored, Message: &m, Help: "pawl run watch " + word(f.Run)}
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
		return p.Place == statemachine.Parked && !p.Unconfirmed() && p.Rev == f.Record.Rev && f.Letters != nil && !stored
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
			Text: fmt.Sprintf("there is no such run, and %d starts wait to be taken%s: its own may be one of them", f.startsWait(), f.inLine()),
			Help: "pawl worker ls",
		})
	default:
		x.add(Reason{Code: NotFound, Text: "there is no such run, and no start or letter of it"})
	}
	f.told(x)
	f.stopped(x)
}

// inLine says how many starts have been put in line.
func (f *Facts) inLine() string {
	if f.Starts.InLine == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them in line by priority and tenant", f.Starts.InLine)
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
