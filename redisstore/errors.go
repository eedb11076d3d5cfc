package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/worker"
)

// refusals are the codes by which a server says that it cannot serve now, or
// not this client: nobody's fault that sent the command, and over when an
// operator, a failover or time has mended it.
var refusals = []string{
	"READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "MISCONF", "NOREPLICAS", "BUSY", "OOM", "TRYAGAIN",
	"MOVED", "ASK", "UNKILLABLE", "NOAUTH", "WRONGPASS", "NOPERM", "max number of clients reached",
}

// wrap makes an error of Redis one of the worker's. ctx is the operation's.
func wrap(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return nil
	case errors.Is(context.Cause(ctx), context.Canceled):
		return context.Canceled
	case unavailable(err):
		return fmt.Errorf("redis: %w: %w", worker.ErrUnavailable, err)
	}
	return fmt.Errorf("redis: %w", err)
}

func unavailable(err error) bool {
	var answer redis.Error
	if errors.As(err, &answer) {
		for _, code := range refusals {
			// Servers before Redis 7 put the code of a script's error inside
			// the message.
			if redis.HasErrorPrefix(err, code) || strings.Contains(err.Error(), "-"+code+" ") {
				return true
			}
		}
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
