package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// HeldError says that another process has the data directory, and how to join
// its fleet. What is not known is zero.
type HeldError struct {
	Dir   string
	PID   int
	Since time.Time
	NATS  string // host and port
	Redis string
}

// Error names the holder, and in a second line what joins its fleet.
func (e *HeldError) Error() string {
	text := fmt.Sprintf("data directory %s is held by ", e.Dir)
	if e.PID == 0 {
		return text + "another process"
	}
	text += fmt.Sprintf("process %d since %s", e.PID, clock(e.Since))
	if e.NATS == "" || e.Redis == "" {
		return text + ", which is starting"
	}
	return text + fmt.Sprintf(" (nats %s, redis %s)\nto join that fleet: PAWL_NATS_URL=nats://%s PAWL_REDIS_ADDR=%s go run ./cmd/worker",
		e.NATS, e.Redis, e.NATS, e.Redis)
}

// clock leaves the date away while it is today's.
func clock(t time.Time) string {
	t = t.Local()
	if y, m, d := time.Now().Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// holder is the content of the lock file. It explains and locks nothing: what
// a dead process has left in it does no harm.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	NATS  string    `json:"nats,omitempty"`
	Redis string    `json:"redis,omitempty"`
}

// lock is the lock of a data directory. The file stays: whoever removed it
// could remove one that a third process has just locked.
type lock struct {
	file *os.File
	holder
}

var errHeld = errors.New("held")

// take locks the directory. If it is held by a process that is starting, it
// waits a moment for its addresses.
func take(ctx context.Context, dir string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
		}
		h := read(ctx, f)
		return nil, &HeldError{Dir: dir, PID: h.PID, Since: h.Since, NATS: h.NATS, Redis: h.Redis}
	}
	l := &lock{file: f, holder: holder{PID: os.Getpid(), Since: time.Now().UTC()}}
	if err := l.note("", ""); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func read(ctx context.Context, f *os.File) (h holder) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 40 {
		var got holder
		raw := make([]byte, 4096)
		n, _ := f.ReadAt(raw, 0)
		if json.Unmarshal(raw[:n], &got) == nil { // else it is being written
			h = got
		}
		if h.NATS != "" {
			break
		}
		select {
		case <-ctx.Done():
			return h
		case <-tick.C:
		}
	}
	return h
}

// note writes down who holds the directory.
func (l *lock) note(nats, redis string) error {
	l.NATS, l.Redis = nats, redis
	raw, err := json.Marshal(l.holder)
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(raw, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("write lock of data directory: %w", err)
	}
	return nil
}

// release lets the directory go.
func (l *lock) release() {
	_ = unlock(l.file)
	_ = l.file.Close()
}
