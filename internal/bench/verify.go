package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

// named is how many runs that went wrong are named.
const named = 10

// verdict is what HISTORY says about the runs, by the broker's clock.
type verdict struct {
	records int // of all runs
	wrong   []string
	wrongs  int
	failed  int
	steps   []time.Duration // from each record of a run to its next
}

// runRead is a run while its records are read.
type runRead struct {
	records int
	rev     int // of the last one
	last    time.Time
	status  statemachine.Status
}

// historyEnd is the sequence of the last record there is.
func historyEnd(ctx context.Context, js jetstream.JetStream, prefix string) (uint64, error) {
	s, err := js.Stream(ctx, strings.ToUpper(prefix)+"_HISTORY")
	if err != nil {
		return 0, fmt.Errorf("look at HISTORY: %w", err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// verify reads the records of the driver's runs after a sequence.
func (d *driver) verify(ctx context.Context, after uint64) (*verdict, error) {
	until, err := historyEnd(ctx, d.js, d.fleet.Prefix)
	if err != nil {
		return nil, err
	}
	runs := make([]runRead, len(d.ended))
	v := &verdict{steps: make([]time.Duration, 0, len(runs)*d.load.Steps)}
	if until > after {
		if err := d.read(ctx, after, until, runs, v); err != nil {
			return nil, fmt.Errorf("read HISTORY: %w", err)
		}
	}
	want := d.load.Steps + 1
	for i, r := range runs {
		v.records += r.records
		if r.status != statemachine.StatusSucceeded {
			v.failed++
		}
		if r.records == want && r.rev == want {
			continue
		}
		if v.wrongs++; len(v.wrong) < named {
			v.wrong = append(v.wrong, fmt.Sprintf("%s%d has %d", d.name, i, r.records))
		}
	}
	return v, nil
}

// read goes over the headers of records.
func (d *driver) read(ctx context.Context, after, until uint64, runs []runRead, v *verdict) error {
	consumer, err := d.js.OrderedConsumer(ctx, strings.ToUpper(d.fleet.Prefix)+"_HISTORY", jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, HeadersOnly: true,
	})
	if err != nil {
		return err
	}
	records, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return err
	}
	defer records.Stop()
	for {
		m, err := records.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		subject := m.Subject()
		if i, ok := d.index(subject[strings.LastIndexByte(subject, '.')+1:]); ok {
			r := &runs[i]
			if r.records > 0 {
				v.steps = append(v.steps, meta.Timestamp.Sub(r.last))
			}
			h := m.Headers()
			r.records++
			r.rev, _ = strconv.Atoi(h.Get("Pawl-Rev")) // 0 is told as wrong
			r.last, r.status = meta.Timestamp, statemachine.Status(h.Get("Pawl-Status"))
		}
		if meta.Sequence.Stream >= until {
			return nil
		}
	}
}

// letters counts the dead letters of the driver's runs after a sequence.
func (d *driver) letters(ctx context.Context, after uint64) (n int, err error) {
	for l, err := range d.fleet.Answers.Mail(ctx, deadletter.Filter{}, after) {
		if err != nil {
			return n, fmt.Errorf("read the dead letters: %w", err)
		}
		if _, ok := d.index(l.Run); ok {
			n++
		}
	}
	return n, nil
}

// runTimes is how long each run took, from the publishing of its start until
// its end was heard of.
func (d *driver) runTimes() []time.Duration {
	all := make([]time.Duration, len(d.ended))
	for i := range all {
		all[i] = time.Duration(d.ended[i].Load() - d.sent[i].Load())
	}
	return all
}

// settled waits until the fleet has acked the last starts, so that what they
// cost is counted, too; not for long, since others may start runs as well.
func (d *driver) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for {
		s, err := d.js.Stream(ctx, strings.ToUpper(d.fleet.Prefix)+"_START")
		if err != nil || s.CachedInfo().State.Msgs == 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// dlqEnd is the sequence of the last dead letter there is.
func dlqEnd(ctx context.Context, js jetstream.JetStream, prefix string) (uint64, error) {
	s, err := js.Stream(ctx, strings.ToUpper(prefix)+"_DLQ")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at DLQ: %w", err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// quantile is a value that a share q of all are not above, in milliseconds. It
// sorts what it is given.
func quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return milliseconds(all[min(len(all)-1, int(q*float64(len(all))))])
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
