// Package transitions is the catalogue this fleet ships: machines and the
// handlers of their effects; the one folder a fleet's owner edits.
//
// A machine file (report.go, invoice.go, trip.go, kitchensink.go) holds the data of a
// machine, its states and its pure callbacks. A handler file holds what touches
// the world. Three rules keep a run safe:
//
//   - a handler is given an idempotency key and may be called again with the
//     same key: it passes the key on, or recognises what it has done before;
//   - a handler says how a failure is to be taken: [statemachine.Terminal] is
//     given up at once, [statemachine.Later] spends no attempt, everything else is
//     one attempt of five;
//   - no machine file reads a clock, a file or a socket. What it needs comes in
//     as the result of an effect.
//
// The shipped effects really act, but locally: documents are read from the
// input, from allowed hosts or from files, and what a company would send to a
// ledger, to a mail provider or to a travel agency is appended to a file. Binding a name to a URL
// in the configuration replaces the shipped handler by an HTTP service.
package transitions
