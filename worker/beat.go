package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// beat prolongs the messages and claims of handlers that run here, and of
// results that are not recorded yet, and only those: whoever beats without
// working keeps a message from coming back.
func (l *lane) beat(ctx context.Context) {
	now := time.Now()
	if now.Before(l.next) {
		return
	}
	pause := l.w.cfg.beat() / 2
	l.next = now.Add(pause)
	var claims []Claim
	for _, s := range l.slots {
		for c := range s.calls {
			if s.running[c.pending.ID] == c && now.UnixNano() >= c.over.Load() {
				continue // past its deadline: others may have it
			}
			claims = append(claims, l.w.claim(s.run, c.pending.ID))
			for _, h := range s.held {
				if !c.serves(h) || now.Sub(h.beat) < pause {
					continue
				}
				if err := h.m.Beat(); err == nil {
					h.beat = now
				}
			}
		}
	}
	if len(claims) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(ctx, pause) // the next beat must not wait for it
	defer cancel()
	if err := l.w.ports.Claims.Renew(limit, claims); err != nil {
		l.w.trouble(onRedis, err)
	}
}

// beatWhile asks something of a store, and beats until the answer is there: it
// may take longer than messages and claims last, and others would perform anew
// what has its result here. Ask runs beside the lane, which does nothing but
// beat meanwhile.
func (l *lane) beatWhile(ctx context.Context, ask func()) {
	done := make(chan struct{})
	var failed any
	var where []byte
	go func() {
		defer close(done)
		defer func() {
			if failed = recover(); failed != nil {
				where = debug.Stack()
			}
		}()
		ask()
	}()
	t := time.NewTimer(time.Until(l.next))
	defer t.Stop()
	for {
		select {
		case <-done:
			if failed != nil {
				panic(fmt.Sprintf("%v\n%s", failed, where)) // as if it had happened here
			}
			return
		case <-t.C:
			l.beat(ctx)
			t.Reset(max(time.Until(l.next), time.Millisecond))
		}
	}
}
