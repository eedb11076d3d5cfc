package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Observe has done told how long each round trip of client takes: a command,
// or a pipeline of them. It must be quick.
func Observe(client redis.UniversalClient, done func(took time.Duration)) {
	client.AddHook(observer{done})
}

// observer is a hook of the client.
type observer struct{ done func(time.Duration) }

func (o observer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o observer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		o.done(time.Since(began))
		return err
	}
}

func (o observer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		o.done(time.Since(began))
		return err
	}
}
