package gauges

import "time"

// Runs is how many runs are in a state with a status.
type Runs struct {
	Machine, State, Status string
	N                      int
}

// Index is what the index of runs says.
type Index struct {
	Runs     []Runs
	Complete float64 // share of the index that holds every run, 0 to 1
}

// Stream is how full a stream is.
type Stream struct {
	Name        string
	Messages    uint64
	Bytes       uint64
	MaxMessages int64 // ≤ 0: no limit
	MaxBytes    int64 // ≤ 0: no limit
}

// Consumer is what waits for a consumer.
type Consumer struct {
	Name        string
	Pending     int // not given to anybody yet
	InFlight    int // given, and not acked
	Redelivered int // of those: given before
	Oldest      time.Duration
}

// Queues is what the streams say.
type Queues struct {
	Streams   []Stream
	Consumers []Consumer
	Letters   map[string]int // by kind
}
