package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/natsqueue"
)

// heldUp notes what is paused, and which flow keys are closed.
func (x *exam) heldUp(ctx context.Context, q *natsqueue.Queue) {
	x.ask()
	notices, all, err := q.Flow.List(ctx)
	if err != nil {
		text, fix, _ := x.why(err)
		x.note(Unknown, "held up", text, fix)
		return
	}
	const several = 10 // pauses that are named
	now := time.Now()
	var last flow.Notice // of the closed keys, the one that opens last
	paused, closed := 0, 0
	for _, n := range notices {
		switch {
		case !n.Holds(now):
		case n.Kind == flow.KindKey:
			if closed++; n.Until.After(last.Until) {
				last = n
			}
		default:
			if paused++; paused > several {
				continue
			}
			text := fmt.Sprintf("paused%s since %s, %v ago", by(n.By), n.At.UTC().Format(time.RFC3339), now.Sub(n.At).Round(time.Second))
			if n.Reason != "" {
				text += ": " + oneLine(n.Reason)
			}
			fix := "pawl effect resume " + n.Effect
			if n.Kind == flow.KindState {
				fix = "pawl state resume " + n.Machine + " " + n.State
			}
			x.note(Warn, n.Subject().String(), text, fix+", when it may go on")
		}
	}
	switch {
	case paused > several:
		x.note(Warn, "held up", fmt.Sprintf("%d more are paused", paused-several), "pawl effect ls")
	case paused == 0:
		x.note(OK, "held up", "no effect type and no state is paused", "")
	}
	switch {
	case !all:
		x.note(Warn, "closed keys", "too many to be listed", "do providers turn the fleet away? the metric pawl_flow_held has how many")
	case closed > 0:
		x.note(OK, "closed keys", fmt.Sprintf("%d; the last to open is %s%s, in %v", closed, last.Subject(), by(last.By), last.Until.Sub(now).Round(time.Second)), "")
	default:
		x.note(OK, "closed keys", "none", "")
	}
}

// letters notes how many letters there are.
func (x *exam) letters(ctx context.Context, q *natsqueue.Queue) {
	x.ask()
	count, err := q.Letters.Count(ctx)
	if err != nil {
		text, fix, _ := x.why(err)
		x.note(Unknown, "letters", text, fix)
		return
	}
	var parts []string
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		if n := count[kind]; n > 0 {
			sum += n
			parts = append(parts, fmt.Sprintf("%d of kind %s", n, kind))
		}
	}
	text := "none"
	if sum > 0 {
		text = strings.Join(parts, ", ") + ": dlq-replayer summary"
	}
	x.note(OK, "letters", text, "")
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}
