package api

import (
	"context"
	"errors"
	"iter"

	"github.com/pawlrun/pawl/deadletter"
	"github.com/pawlrun/pawl/statemachine"
)

// ErrNotFound is returned for a run or a letter that does not exist.
var ErrNotFound = errors.New("not found")

// Log is what is read of HISTORY.
type Log interface {
	// Look reads a run's last record; nil if there is none.
	Look(ctx context.Context, run string) (*statemachine.Stored, error)
	// Read yields a run's records with a stream sequence after the given one,
	// in order.
	Read(ctx context.Context, run string, after uint64) iter.Seq2[*statemachine.Stored, error]
	// Sweep yields the last record of every run of a partition. An error that
	// is statemachine.ErrFormat is about one run, any other ends it.
	Sweep(ctx context.Context, partition int) iter.Seq2[*statemachine.Stored, error]
}

// Blobs keep values that are too large for a record.
type Blobs interface {
	Get(ctx context.Context, run, hash string) ([]byte, error)
}

// Letters is what is read of DLQ.
type Letters interface {
	// Of yields the letters of a kind and a machine with a sequence after the
	// given one, oldest first; "" stands for all. After an error that is about
	// one letter it goes on, if it may.
	Of(ctx context.Context, kind deadletter.Kind, machine string, after uint64) iter.Seq2[deadletter.Letter, error]
	// Get returns a letter by its sequence, and false if there is none.
	Get(ctx context.Context, seq uint64) (deadletter.Letter, bool, error)
}

// Answers makes the answers. It may be used concurrently.
type Answers struct {
	Log     Log
	Blobs   Blobs
	Letters Letters
}
