package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// Machines is the registry of definitions. What is registered stays so; what
// was found is not asked for again.
type Machines struct {
	*link

	mu    sync.Mutex
	known map[string]struct{} // subjects that have a message
}

var _ worker.Machines = (*Machines)(nil)

// Register implements worker.Machines.
func (r *Machines) Register(ctx context.Context, name string, version int, hash string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("register machine %s version %d: %w", quoted(name), version, err)
	}
	if err := checkName("machine", name); err != nil {
		return fail(err)
	}
	if version < 1 || hash == "" {
		return fail(errors.New("a version from 1 and a hash are needed"))
	}
	subject := r.subj.machine(name, version)
	a := r.send(ctx, []*nats.Msg{{Subject: subject, Data: []byte(hash), Header: nats.Header{headerExpected: {"0"}}}})[0]
	if a.verdict == stored {
		return hash, nil
	}
	if a.verdict != refused {
		return fail(a.err())
	}
	m, err := r.lead(ctx, streamMachines, map[string]any{"last_by_subj": subject})
	if err != nil {
		return fail(err)
	}
	if m == nil {
		return fail(fmt.Errorf("%w: it is and is not registered", worker.ErrUnavailable))
	}
	return string(m.data), nil
}

// Known implements worker.Machines.
func (r *Machines) Known(ctx context.Context, name string, version int) (bool, error) {
	if !queue.IsName(name) || version < 0 {
		return false, nil
	}
	subject := r.subj.versions(name)
	if version > 0 {
		subject = r.subj.machine(name, version)
	}
	r.mu.Lock()
	_, ok := r.known[subject]
	r.mu.Unlock()
	if ok {
		return true, nil
	}
	m, err := r.lead(ctx, streamMachines, map[string]any{"last_by_subj": subject})
	if err != nil {
		return false, fmt.Errorf("look up machine %s: %w", name, err)
	}
	if m == nil {
		return false, nil
	}
	r.mu.Lock()
	r.known[subject] = struct{}{}
	r.mu.Unlock()
	return true, nil
}
