// Package logkey holds the names of log attributes, so that the same thing is
// called the same in every line.
package logkey

// Names of log attributes.
const (
	Addr       = "addr"
	Attempt    = "attempt"
	Cause      = "cause"
	Class      = "class"
	Component  = "component"
	Count      = "count"
	Dependency = "dependency"
	Duration   = "duration"
	Effect     = "effect"
	EffectID   = "effect_id"
	Error      = "error"
	EventID    = "event_id"
	Field      = "field"
	Have       = "have"
	Kind       = "kind"
	Machine    = "machine"
	Name       = "name"
	Object     = "object"
	Partition  = "partition"
	Path       = "path"
	Run        = "run_id"
	Running    = "running"
	Stack      = "stack"
	State      = "state"
	Stream     = "stream"
	Subject    = "subject"
	Text       = "text"
	Tries      = "tries"
	Version    = "version"
	Wait       = "wait"
	Want       = "want"
	Worker     = "worker"
)
