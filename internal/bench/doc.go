// Package bench drives runs of the machine kitchensink through a fleet, and
// says how fast they went, what that cost, and whether each of them was carried
// out as it must be: one record for its start and one for each step.
//
// The load generator is meant to be on the machine that is measured, so it is
// cheap. It publishes a start for each run and hears of each end by one
// message: the completion event, which the fleet publishes anyway, by a plain
// subscription, which costs the server no consumer. All else (records,
// latencies of steps, letters) is read from the streams when the measurement is
// over.
package bench
