package worker

import (
	"context"
	"sync"
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
		for _, h := range s.held {
			if now.Before(h.kept) && now.Sub(h.beat) >= pause && h.m.Beat() == nil {
				h.beat = now
			}
		}
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
// what has its result here. The lane itself asks, so a quick answer, as nearly
// all are, costs a timer that never fires; the beats come from the timer's
// goroutine, which has the lane's slots to itself while the lane waits.
func (l *lane) beatWhile(ctx context.Context, ask func()) {
	var mu sync.Mutex // held while a beat is under way
	var over bool
	var t *time.Timer
	mu.Lock()
	t = time.AfterFunc(time.Until(l.next), func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		l.w.tried(func() { l.beat(ctx) }) // a fault of our own stays in the lane
		t.Reset(max(time.Until(l.next), time.Millisecond))
	})
	mu.Unlock()
	defer func() {
		t.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
	}()
	ask()
}
