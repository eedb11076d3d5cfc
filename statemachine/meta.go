package statemachine

import "time"

// Meta tells callbacks about the run and the event at hand. Embed it in the
// data type; it is not stored with the data.
type Meta struct {
	run   string
	now   time.Time
	visit int
	cause *Cause

	notice *Notice
}

// RunID is the id of the run.
func (m Meta) RunID() string { return m.run }

// Now is the time of the event at hand, as it is recorded; it never goes back
// within a run. It is not the clock of the worker, so that folding the event
// again gives the same answer.
func (m Meta) Now() time.Time { return m.now }

// Visit tells how often the current state was entered, from 1.
func (m Meta) Visit() int { return m.visit }

// Cause is the failure that was caught last, with zero fields if none was.
func (m Meta) Cause() Cause {
	if m.cause == nil {
		return Cause{}
	}
	return *m.cause
}

// Notice says whom an approval's [ApproveAction.Tell] tells, and why; zero
// anywhere else.
func (m Meta) Notice() Notice {
	if m.notice == nil {
		return Notice{}
	}
	return *m.notice
}

// meta makes the embedded Meta of any data type reachable.
func (m *Meta) meta() *Meta { return m }

// metaHolder is a data type that embeds Meta.
type metaHolder interface{ meta() *Meta }
