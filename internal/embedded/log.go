package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pawlrun/pawl/internal/logkey"
)

// natsLog hands what nats-server says to slog. Its notices are of no interest
// to those who run a fleet, hence debug; nothing it calls an error stops the
// fleet by itself, hence warn.
type natsLog struct {
	log   *slog.Logger
	fatal chan error // the first thing it cannot go on with
}

func (l *natsLog) say(level slog.Level, format string, v []any) {
	if ctx := context.Background(); l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "nats-server said", logkey.Text, strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}

// Noticef takes a notice of nats-server.
func (l *natsLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Warnf takes a warning of nats-server.
func (l *natsLog) Warnf(format string, v ...any) { l.say(slog.LevelWarn, format, v) }

// Errorf takes an error of nats-server.
func (l *natsLog) Errorf(format string, v ...any) { l.say(slog.LevelWarn, format, v) }

// Debugf takes a debug line of nats-server.
func (l *natsLog) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Tracef takes a trace line of nats-server.
func (l *natsLog) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Fatalf takes what nats-server expects to end the process. It does not here:
// Start returns it, and later on the connections of the fleet will tell.
func (l *natsLog) Fatalf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}
