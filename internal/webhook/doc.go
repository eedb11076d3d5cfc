// Package webhook takes starts, signals and results over HTTP, from senders that have no
// NATS client.
//
//	POST /start/{machine}       body: the run's input, as JSON
//	POST /signal/{run}/{name}   body: the signal's, as JSON
//	GET  /runs/{run}            how the run stands
//	POST /result/{token}        the result of an effect that was accepted;
//	                            /failure and /heartbeat below it say that it
//	                            failed, or that somebody is still at it
//
// The first two answer 202 once JetStream has stored the message: from then on
// the fleet carries it on, whatever happens to this process. The run is named
// by Pawl-Run-Id or Idempotency-Key, a signal by Pawl-Signal-Id or
// Idempotency-Key: what is sent again under the same name counts once. Every
// request carries a token, results that of their effect. Errors are {"error", "class"}, as in the control
// API; after a 503 the same request is to be sent again.
package webhook
