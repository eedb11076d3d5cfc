package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/natsqueue"
)

// streams compares streams and consumers with what this build wants, and looks
// at how they are.
func (x *exam) streams(ctx context.Context) {
	if !x.plan(ctx) {
		return
	}
	q, err := natsqueue.Open(ctx, x.NATS, natsqueue.Options{Prefix: x.Topology.Prefix, Quiet: x.Timeout, Patience: x.Timeout})
	if err != nil {
		return // HISTORY is missing: that was said
	}
	defer func() { _ = q.Close() }()
	x.incarnation, _ = q.Incarnation(ctx)
	x.letters(ctx, q)
	x.heldUp(ctx, q)
	x.ask()
	all, err := q.Streams(ctx)
	if err != nil { // a worker can do without the list of consumers
		text, fix, denied := x.why(err)
		x.note(map[bool]Status{true: Unknown, false: Fail}[denied], "streams", text, fix)
		return
	}
	x.copies(all)
	x.room(all)
	x.waiting(all)
	x.brokerClock(ctx, all)
}

// plan notes each difference, and reports whether it could look.
func (x *exam) plan(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*x.Timeout)
	defer cancel()
	x.ask()
	changes, err := natsqueue.Plan(ctx, x.NATS, x.Topology)
	if err != nil {
		text, fix, denied := x.why(err)
		if denied {
			text += ": a worker with the rights of this user cannot work"
		}
		x.note(Fail, "streams", text, fix)
		return false
	}
	var missing []string
	for _, c := range changes {
		if c.Field == "" {
			missing = append(missing, c.Object)
		}
	}
	const several = 3
	if len(missing) > several {
		x.note(Fail, "streams", fmt.Sprintf("%d streams and consumers are missing: %s, …", len(missing), strings.Join(missing[:several], ", ")),
			"pawl provision; or is --prefix "+x.Topology.Prefix+" another fleet's?")
	}
	for _, c := range changes {
		status, fix := Warn, "pawl provision"
		if c.Vital {
			status = Fail
		}
		switch {
		case c.Field == "" && len(missing) <= several:
			x.note(Fail, c.Object, "missing", fix)
		case c.Field == "":
		case c.Held != "":
			if fix = c.Held; !c.Vital {
				fix = "pawl provision --shrink, if you mean it; or say so in the configuration"
			}
			fallthrough
		default:
			x.note(status, c.Object, fmt.Sprintf("%s is %s, want %s", c.Field, c.Have, c.Want), fix)
		}
	}
	if len(changes) == 0 {
		x.note(OK, "streams", "all streams and consumers are as this build wants them", "")
	}
	return true
}

// copies judges the replicas, and whether all are there.
func (x *exam) copies(all []api.Stream) {
	least, servers := 0, max(1, len(x.NATS.Servers()))
	for _, s := range all {
		if s.Missing {
			continue
		}
		if least == 0 || s.Replicas < least {
			least = s.Replicas
		}
		servers = max(servers, s.Replicas)
		switch {
		case s.Replicas > 1 && s.Leader == "":
			x.note(Fail, "stream "+s.Name, "no leader", "bring its servers back: nothing can be written")
		case len(s.Lagging) > 0:
			x.note(Warn, "stream "+s.Name, "replicas are away or behind: "+strings.Join(s.Lagging, ", "), "look at these servers")
		}
	}
	cluster := x.NATS.ConnectedClusterName()
	var f first
	f.when(least < 3 && cluster != "" && servers >= 3, Warn, "nats.replicas: 3, and pawl provision", "%d of each stream, in a cluster of %d servers", least, servers)
	f.when(least == 2, Warn, "three copies have a majority when one is away; two have not", "2 of each stream")
	f.when(least < 2 && !x.Embedded, Warn, "three servers, and nats.replicas: 3, survive the loss of one", "%d of each stream: with its disk, everything is lost", least)
	x.judge("nats copies", f, "%d of each stream", least)
}

// room judges how full the streams are that have a limit.
func (x *exam) room(all []api.Stream) {
	var parts []string
	most := -1.0
	for _, s := range all {
		if s.Missing {
			continue
		}
		bounds := ""
		for _, l := range []struct {
			used, limit float64
			text        string
		}{
			{float64(s.Bytes), float64(s.MaxBytes), size(s.MaxBytes)},
			{float64(s.Messages), float64(s.MaxMessages), fmt.Sprint(s.MaxMessages, " messages")},
		} {
			if l.limit <= 0 {
				continue
			}
			full := share(l.used, l.limit)
			text := fmt.Sprintf("%.0f %% of %s", full, l.text)
			most = max(most, full)
			if bounds != "" {
				bounds += " and "
			}
			bounds += text
			fix, means := "raise its limit in the configuration and call pawl provision; or find out why it is not drained", "when it is full it refuses what is published"
			if strings.HasSuffix(s.Name, "_DLQ") {
				fix, means = "dlq-replayer summary, then redrive or discard letters; or raise limits.dlq_size and call pawl provision",
					"when it is full, what is given up on stays where it is, and its run waits"
			}
			switch {
			case full >= 90:
				x.note(Fail, "stream "+s.Name, text+": "+means, fix)
			case full >= 70:
				x.note(Warn, "stream "+s.Name, text, fix)
			}
		}
		_, name, _ := strings.Cut(s.Name, "_")
		switch {
		case bounds != "":
			parts = append(parts, name+" "+bounds)
		case name == "HISTORY" || name == "DLQ":
			parts = append(parts, name+" "+size(s.Bytes)+", no limit but the disk")
		}
	}
	if most < 70 {
		x.note(OK, "streams' room", strings.Join(parts, "; "), "")
	}
}

// waiting judges whether somebody takes what comes.
func (x *exam) waiting(all []api.Stream) {
	for _, s := range all {
		if !strings.HasSuffix(s.Name, "_START") || len(s.Consumers) == 0 {
			continue
		}
		asked, lag := 0, uint64(0)
		for _, c := range s.Consumers { // those of lines, too: a worker with no slot free asks for nothing else
			asked, lag = max(asked, c.Waiting), lag+c.Lag
		}
		var f first
		f.when(asked == 0, Warn, "start a worker", "no worker asks for starts; %d are waiting", lag)
		x.judge("workers", f, "%d requests for starts are open; %d starts are waiting", asked, lag)
	}
}

// brokerClock compares the clock of a stream's leader, and looks for consumers
// that somebody has paused.
func (x *exam) brokerClock(ctx context.Context, all []api.Stream) {
	js, err := jetstream.New(x.NATS, jetstream.WithDefaultTimeout(x.Timeout))
	if err != nil {
		return
	}
	for _, s := range all {
		if s.Missing || len(s.Consumers) == 0 && !strings.HasSuffix(s.Name, "_HISTORY") {
			continue
		}
		before := time.Now()
		stream, err := js.Stream(ctx, s.Name)
		if err != nil {
			continue // it was there a moment ago: the next examination will tell
		}
		if info := stream.CachedInfo(); strings.HasSuffix(s.Name, "_HISTORY") && !info.TimeStamp.IsZero() {
			x.clock("nats clock", before, info.TimeStamp, time.Now())
		}
		x.ask()
		list := stream.ListConsumers(ctx)
		for c := range list.Info() {
			if c.Paused {
				x.note(Fail, "consumer "+s.Name+"/"+c.Name, fmt.Sprintf("paused for another %v", c.PauseRemaining.Round(time.Second)), "nats consumer resume")
			}
		}
		if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
			text, fix, _ := x.why(err)
			x.note(Unknown, "consumers of "+s.Name, text, fix)
		}
	}
}
