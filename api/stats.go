package api

// WorkerStats is what a worker is doing. Every instance of the service gives it
// as the data of each of its endpoints.
type WorkerStats struct {
	Ready    bool `json:"ready"`
	Held     int  `json:"held"`     // messages in hand, not yet acked
	Handlers int  `json:"handlers"` // handlers under way
	Lanes    int  `json:"lanes"`    // goroutines that drive runs
}

// The keys of an instance's metadata.
const (
	MetaWorker  = "worker"  // id of the worker
	MetaBuild   = "build"   // its code
	MetaHost    = "host"    // where it runs
	MetaPID     = "pid"     // as which process
	MetaStarted = "started" // since when, RFC 3339
	// What it can do, divided by blanks; absent if that is too long.
	MetaMachines = "machines" // name@version
	MetaEffects  = "effects"  // effect types
)
