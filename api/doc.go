// Package api answers requests about runs and letters.
//
// Answers are made from records and letters alone: from HISTORY, BLOBS and
// DLQ, never from a worker and never from Redis. So the same answers are given
// by a worker's control API and by a tool on a fleet in which nothing runs any
// more, which is when somebody needs them. Nothing here writes.
//
// The names in the JSON of the answers are public and permanent.
package api
