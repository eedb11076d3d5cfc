// Package worker drives runs: it turns wake-ups into committed records and
// performed effects.
package worker
