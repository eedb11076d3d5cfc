package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

const (
	letterEvery = 500 * time.Millisecond // between two looks for a letter
	silentAfter = 3 * time.Second        // then it says that no worker seems to be there
)

// waiter follows a run that was just started.
type waiter struct {
	follower
	machine string
	began   time.Time

	letters uint64    // sequence of the last letter that is not ours
	looked  time.Time // for a letter
	warned  bool
}

// before notes what is there before the start is published.
func (w *waiter) before(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	if w.last, err = w.fleet.Answers.Log.Look(ctx, w.id); err != nil {
		return err
	}
	dlq, err := w.fleet.JetStream.Stream(ctx, strings.ToUpper(w.Prefix)+"_DLQ")
	if err != nil {
		return &cli.Error{Err: fmt.Errorf("look at the dead letters: %w", err), Hint: "if they do not exist, create the streams with: pawl provision"}
	}
	w.letters = dlq.CachedInfo().State.LastSeq
	return nil
}

// wait prints each record of the run until it has ended, is parked, or its
// start was refused.
func (w *waiter) wait(ctx context.Context, ack *jetstream.PubAck) error {
	known := w.last != nil
	if known {
		if err := w.repeated(ctx, ack); err != nil {
			return err
		}
	}
	for r, err := range w.records(ctx) {
		if err != nil {
			return err
		}
		if r == nil {
			if err := w.idle(ctx, ack); err != nil {
				return err
			}
			if w.last == nil || w.last.Status != statemachine.StatusParked {
				continue
			}
			break
		}
		if !known && !beganWith(r, ack) { // another start was quicker
			if err := w.repeated(ctx, ack); err != nil {
				return err
			}
		}
		known = true
		fmt.Fprintln(w.Stderr, progress(w.Now().Sub(w.began), r))
	}
	if w.JSON() {
		run, err := w.fleet.Answers.Run(ctx, w.id, api.AllItems)
		if err != nil {
			return err
		}
		if err := w.PrintJSON(run); err != nil {
			return err
		}
	}
	return w.outcome(w.id, w.last)
}

// repeated tells a start whose run is there by another one. Whether it is the
// same or a conflict is known once it was taken.
func (w *waiter) repeated(ctx context.Context, ack *jetstream.PubAck) error {
	if err := w.taken(ctx, ack); err != nil {
		return err
	}
	fmt.Fprintf(w.Stderr, "run %s exists, by the same start\n", cli.Clean(w.id))
	return nil
}

// beganWith reports whether the first record of a run is that of this start.
func beganWith(r *statemachine.Stored, ack *jetstream.PubAck) bool {
	return slices.ContainsFunc(r.Events, func(e statemachine.Event) bool {
		return e.Kind == statemachine.EventStart && (e.Seq == 0 || e.Seq == ack.Sequence)
	})
}

// taken waits until a worker is done with the start message.
func (w *waiter) taken(ctx context.Context, ack *jetstream.PubAck) error {
	stream, err := w.fleet.JetStream.Stream(ctx, ack.Stream)
	if err != nil {
		return fmt.Errorf("look at the start: %w", err)
	}
	for {
		_, err := stream.GetMsg(ctx, ack.Sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			w.looked = time.Time{}
			return w.refused(ctx, ack)
		}
		if err != nil {
			return fmt.Errorf("look at the start: %w", err)
		}
		w.silence()
		select {
		case <-time.After(letterEvery / 5):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// idle is called while nothing happens to the run.
func (w *waiter) idle(ctx context.Context, ack *jetstream.PubAck) error {
	if w.last != nil {
		return nil
	}
	w.silence()
	return w.refused(ctx, ack)
}

func (w *waiter) silence() {
	if !w.warned && w.Now().Sub(w.began) > silentAfter {
		w.warned = true
		fmt.Fprintln(w.Stderr, "no worker has taken the start yet; waiting")
	}
}

// refused looks for a dead letter that is the start.
func (w *waiter) refused(ctx context.Context, ack *jetstream.PubAck) error {
	if w.Now().Sub(w.looked) < letterEvery {
		return nil
	}
	w.looked = w.Now()
	f := deadletter.Filter{Kind: deadletter.KindStart, Machine: w.machine}
	for l, err := range w.fleet.Answers.Mail(ctx, f, w.letters) {
		if err != nil {
			return err
		}
		w.letters = l.Seq
		if l.SrcSeq == ack.Sequence && l.Source == w.Prefix+".start."+w.machine {
			return &cli.Error{
				Err:  fmt.Errorf("run %s was not started: %s: %s", w.id, l.Class, strings.TrimPrefix(l.Cause, l.Class+": ")),
				Hint: fmt.Sprintf("dlq-replayer show %d", l.Seq),
			}
		}
	}
	return nil
}
