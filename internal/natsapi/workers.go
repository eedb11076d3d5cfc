package natsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/explain"
)

// How long workers are listened to: until none has answered for quiet, and
// silence at the most if none does at all.
const (
	quiet   = 150 * time.Millisecond
	silence = time.Second
)

// Workers lists the workers of a fleet that answer, and what they can do. That
// the server knows of none is an empty list; that nobody says anything is an
// error, since a permission may be missing.
func Workers(ctx context.Context, nc *nats.Conn, prefix string) ([]explain.Worker, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask for workers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	subject := micro.APIPrefix + "." + micro.StatsVerb.String() + "." + api.ServiceName
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask for workers: %w", err)
	}
	out, answered := []explain.Worker{}, false
	for wait := silence; ; wait = quiet {
		once, cancel := context.WithTimeout(ctx, wait)
		m, err := sub.NextMsgWithContext(once)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("ask for workers: %w", context.Cause(ctx))
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && answered:
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("ask for workers: %w", err)
		}
		answered = true
		if w, ok := workerOf(m.Data, prefix); ok {
			out = append(out, w)
		}
	}
}

// workerOf reads what a worker answers; false if it is none of this fleet.
func workerOf(answer []byte, prefix string) (explain.Worker, bool) {
	var s micro.Stats
	if json.Unmarshal(answer, &s) != nil || s.Name != api.ServiceName || s.Metadata["prefix"] != prefix || len(s.Endpoints) == 0 {
		return explain.Worker{}, false
	}
	var stats api.WorkerStats
	if json.Unmarshal(s.Endpoints[0].Data, &stats) != nil {
		return explain.Worker{}, false
	}
	return explain.Worker{
		ID: s.Metadata[api.MetaWorker], Ready: stats.Ready,
		Machines: words(s.Metadata, api.MetaMachines), Effects: words(s.Metadata, api.MetaEffects),
	}, true
}

// mostMeta bounds what a worker says of what it can do.
const mostMeta = 16 << 10

// tell adds a list of names to the metadata, unless it is too long.
func tell(meta map[string]string, key string, names []string) {
	if text := strings.Join(names, " "); names != nil && len(text) <= mostMeta {
		meta[key] = text
	}
}

// words reads such a list; nil if it is not there.
func words(meta map[string]string, key string) []string {
	text, ok := meta[key]
	if !ok {
		return nil
	}
	return append([]string{}, strings.Fields(text)...)
}
