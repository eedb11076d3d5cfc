// Package outbox publishes what a committed record asks for.
//
// A record's outbox is part of the record, so it is as durable as the
// transition. The next record of the run may only be appended after every
// entry was acknowledged (invariant I5), so at most the last record of a run
// is unpublished, and whoever loads it can finish the job. Publishing twice is
// harmless: every message names its cause.
package outbox

import (
	"context"

	"github.com/pawlrun/pawl/statemachine"
)

// Item is one entry with what its message needs to know of its record.
type Item struct {
	Run     string
	Machine string
	State   string
	Seq     uint64 // of the record it stands in: the message carries it as "asked"
	Txid    string
	Entry   statemachine.Entry
	Record  *statemachine.Record // the one it stands in; nil for a message that is issued again
}

// Publisher publishes items and awaits their acknowledgements; the answers
// are parallel to the items.
type Publisher interface {
	Publish(ctx context.Context, items []Item) []error
}

// Items lists the outbox of records.
func Items(records ...*statemachine.Stored) []Item {
	var items []Item
	for _, r := range records {
		for _, e := range r.Outbox {
			items = append(items, Item{Run: r.Run, Machine: r.Machine, State: r.To, Seq: r.Seq, Txid: r.Txid, Entry: e, Record: r.Record})
		}
	}
	return items
}
