// Package statemachine is what a machine is, what a run is, and how it moves:
// pure, standard library only; time comes in as data.
//
// An author declares a [Machine] over a data type of their own. A [Catalog]
// holds machines and the handlers of their effects, and checks them all at
// start. A run is a chain of records; [Fold] makes the next one:
//
//	   author                       worker
//	     │ New, State, Call …         │ loads the last record
//	     ▼                            ▼
//	 Machine[T] ──compile──▶ Definition.Begin(run, last record)
//	                                  │
//	start, result, failure, ────▶ Fold.Apply(event) …   each checked against
//	due, queue, signal                │                 the state it meets
//	                                  ▼
//	                             Fold.Seal ──▶ Record n+1: state, pending
//	                                  │        effects, outbox
//	                                  ▼
//	                      appended to HISTORY, then performed:
//	                      the results are the events of record n+2
//
// Within one event a machine runs through its states until it waits for an
// effect or has ended. Callbacks are given the data and nothing else; what
// they do is recorded, never replayed: the committed record wins, so safety
// does not rest on callbacks giving the same answer twice. That they do is
// offered all the same, and checked by [Definition.Refold]: callbacks that use
// only the data, and [Meta] for time and identity, are reproducible.
package statemachine
