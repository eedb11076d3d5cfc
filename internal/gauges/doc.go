// Package gauges shows the state of the whole fleet as metrics.
//
// Every worker shows the same values, so that any one of them may die; whoever
// reads them takes the maximum. They come from snapshots that are taken in the
// background: a scrape reads memory, and never NATS or Redis, however many
// scrape and however often. Taking them is bounded, too: the larger the fleet,
// the longer the pause after it.
package gauges
