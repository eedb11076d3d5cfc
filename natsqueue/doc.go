// Package natsqueue speaks JetStream for the fleet: topology, batch fetch,
// conditional and group append, last records, publishing, schedules, letters,
// ledger and blobs.
package natsqueue
