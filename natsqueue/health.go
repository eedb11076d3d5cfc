package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

var (
	_ api.Registry = (*Machines)(nil)
	_ api.Streams  = (*Queue)(nil)
)

// Machines implements api.Registry.
func (r *Machines) Machines(ctx context.Context) ([]api.Machine, error) {
	var all []api.Machine
	for m, err := range r.lasts(ctx, streamMachines, []string{r.subj.versions("*")}) {
		if err != nil {
			return nil, fmt.Errorf("list machines: %w", err)
		}
		t := r.subj.tokens(m.subject)
		if len(t) != 3 {
			continue
		}
		version, err := strconv.Atoi(t[2])
		if err != nil || !queue.IsName(t[1]) { // somebody else's message
			continue
		}
		i := slices.IndexFunc(all, func(a api.Machine) bool { return a.Name == t[1] })
		if i < 0 {
			i = len(all)
			all = append(all, api.Machine{Name: t[1]})
		}
		all[i].Versions = append(all[i].Versions, api.MachineVersion{Version: version, Hash: string(m.data), Registered: m.time})
	}
	slices.SortFunc(all, func(a, b api.Machine) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range all {
		slices.SortFunc(m.Versions, func(a, b api.MachineVersion) int { return a.Version - b.Version })
	}
	return all, nil
}

// Streams implements api.Streams. A stream that no server leads cannot be
// looked at: that is an error, and says which.
func (q *Queue) Streams(ctx context.Context) ([]api.Stream, error) {
	out := make([]api.Stream, 0, len(streamNames))
	for _, name := range streamNames {
		s, err := q.link.stream(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	return out, nil
}

// stream describes a stream.
func (l *link) stream(ctx context.Context, name string) (*api.Stream, error) {
	name = l.subj.stream(name)
	s, err := l.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return &api.Stream{Name: name, Missing: true}, nil
	}
	if err != nil {
		return nil, unavailable("look up stream "+name, err)
	}
	info := s.CachedInfo()
	out := &api.Stream{
		Name: name, Messages: info.State.Msgs, Bytes: info.State.Bytes,
		MaxMessages: info.Config.MaxMsgs, MaxBytes: info.Config.MaxBytes,
		FirstSeq: info.State.FirstSeq, LastSeq: info.State.LastSeq, FirstTime: info.State.FirstTime, Replicas: info.Config.Replicas,
	}
	if c := info.Cluster; c != nil {
		out.Leader = c.Leader
		for _, p := range c.Replicas {
			if p.Offline || !p.Current {
				out.Lagging = append(out.Lagging, p.Name)
			}
		}
	}
	if info.State.Consumers == 0 {
		return out, nil
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Config.Durable == "" { // somebody who reads, and is gone soon
			continue
		}
		out.Consumers = append(out.Consumers, api.StreamConsumer{
			Name: c.Name, Lag: c.NumPending, InHand: c.NumAckPending, Redelivered: c.NumRedelivered, Waiting: c.NumWaiting,
		})
	}
	if err := list.Err(); err != nil {
		return nil, unavailable("list the consumers of stream "+name, err)
	}
	slices.SortFunc(out.Consumers, func(a, b api.StreamConsumer) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
