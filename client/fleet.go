package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pawlrun/pawl/api"
)

type (
	// Machine is one that workers have registered, with its versions.
	Machine = api.Machine
	// Stream is the health of one of the fleet's streams.
	Stream = api.Stream
)

// Machines lists the machines that workers have registered, by name.
func (c *Client) Machines(ctx context.Context) ([]Machine, error) {
	var l api.MachineList
	err := c.call(ctx, "list machines", api.MachinesList, struct{}{}, &l)
	return l.Machines, err
}

// Machine returns a machine. ErrNotFound is returned if no worker has
// registered it.
func (c *Client) Machine(ctx context.Context, name string) (*Machine, error) {
	var m Machine
	if err := c.call(ctx, "get machine "+name, api.MachinesGet, api.MachineQuery{Name: name}, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// Streams tells how the fleet's streams are.
func (c *Client) Streams(ctx context.Context) ([]Stream, error) {
	var l api.StreamList
	err := c.call(ctx, "look at the streams", api.StreamsGet, struct{}{}, &l)
	return l.Streams, err
}

// Worker is a worker that answers.
type Worker struct {
	ID       string            `json:"id"`       // of the instance
	Build    string            `json:"build"`    // version of its service
	Metadata map[string]string `json:"metadata"` // worker, build, host, pid, started
	Requests int               `json:"requests"` // that it was given
	Data     json.RawMessage   `json:"data"`     // what it does: ready, held, handlers, lanes
}

// Workers lists the workers that answer now. Nobody knows how many there are,
// so it waits until none has answered for a quarter of a second.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	const op, quiet = "list workers", 250 * time.Millisecond
	subject := micro.APIPrefix + "." + micro.StatsVerb.String() + "." + api.ServiceName
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var workers []Worker
	err := c.again(ctx, op, subject, func(ctx context.Context) error {
		workers = nil
		inbox := c.nc.NewInbox()
		sub, err := c.nc.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := c.nc.PublishRequest(subject, inbox, nil); err != nil {
			return err
		}
		for wait := c.once(); ; wait = quiet {
			once, cancel := context.WithTimeout(ctx, wait)
			m, err := sub.NextMsgWithContext(once)
			cancel()
			switch {
			case err == nil:
				if w, ok := c.workerOf(m); ok {
					workers = append(workers, w)
				}
			case len(workers) > 0 && errors.Is(err, context.DeadlineExceeded):
				return nil
			default:
				return err
			}
		}
	})
	return workers, err
}

// workerOf reads a worker's statistics; false if they are none of this
// fleet's.
func (c *Client) workerOf(m *nats.Msg) (Worker, bool) {
	var s micro.Stats
	if json.Unmarshal(m.Data, &s) != nil || s.Name != api.ServiceName {
		return Worker{}, false
	}
	if p, ok := s.Metadata["prefix"]; ok && p != c.subj.prefix {
		return Worker{}, false
	}
	w := Worker{ID: s.ID, Build: s.Version, Metadata: s.Metadata}
	for _, e := range s.Endpoints {
		w.Requests += e.NumRequests
		if w.Data == nil {
			w.Data = e.Data
		}
	}
	return w, true
}
