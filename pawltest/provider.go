package pawltest

import (
	"slices"
	"sync"
)

// Provider stands for what a handler calls, as a bank or a mail service that
// performs each key once: handlers under test tell it what they ask for, and a
// test sees what came of it. The zero value is ready for use.
type Provider struct {
	mu        sync.Mutex
	performed []string
}

// Perform asks for something under a key. It reports whether that is done now;
// false means that it was done before, under the same key.
func (p *Provider) Perform(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.performed, key) {
		return false
	}
	p.performed = append(p.performed, key)
	return true
}

// Performed are the keys of what was done, in its order.
func (p *Provider) Performed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.performed)
}

func (p *Provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.performed = nil
}

// Using tells which provider the handlers of a test call. It has done nothing
// when a run starts, and [CrashEverywhere] compares what it has done in the end.
func Using(p *Provider) Option {
	return func(r *Run) {
		p.forget()
		r.providers = append(r.providers, p)
	}
}
