package redisstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Entries of an index. They sort as strings, words divided by
// spaces:
//
//	<machine> <state> <status> <at> <token>     where the run is since when
//	@<name> <value> <hour> <token>              what a search field says, and the hour of <at>
//	!<partition>                                all its runs were written
//	!<partition> <ms> <random>                  writing them began, and has not ended
//
// Every word is a token, so it has no space in it.
const (
	fieldMark = "@"

	// Fields that no machine can have, since these are no names: who is waited
	// for, and that anybody is.
	approverField = ":approver"
	approvalField = ":approval"
	approvalWaits = "waits"

	sweptMark = "!" // and the partition in three digits
)

// placeOf is the state entry of a record without the token.
func placeOf(r *statemachine.Record) string {
	return statePrefix(r.Machine, r.To, r.Status) + formatTime(r.At)
}

func statePrefix(machine, state string, status statemachine.Status) string {
	return queue.Token(machine) + " " + queue.Token(state) + " " + queue.Token(string(status)) + " "
}

// fieldPrefix begins the entries of all runs whose search field has a value.
func fieldPrefix(name, value string) string {
	return fieldMark + queue.Token(name) + " " + queue.Token(value) + " "
}

// hourBytes is how much of a time an hour is: "2006-01-02T15".
const hourBytes = len("2006-01-02T15")

// hourOf is the hour of an "<at>", or of what begins with one.
func hourOf(at string) string { return at[:min(hourBytes, len(at))] }

// indexLines are the field entries of a record, without mark, hour and token,
// one a line. They move once an hour, so lists need not look at runs that have
// a value and moved at another time, and whether a run has a value is one look
// at the index.
func indexLines(r *statemachine.Record) string {
	asks, who := approvers(r)
	if len(r.Index) == 0 && !asks {
		return ""
	}
	var b strings.Builder
	line := func(name, value string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(queue.Token(name) + " " + queue.Token(value))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Index)) {
		line(name, r.Index[name])
	}
	if asks {
		line(approvalField, approvalWaits)
	}
	for _, name := range who {
		line(approverField, name)
	}
	return b.String()
}

// approvers reports whether a run waits for an approval, and whose answers it
// waits for, sorted.
func approvers(r *statemachine.Record) (asks bool, who []string) {
	for i := range r.Waits {
		if g := r.Waits[i].Gate; g != nil {
			asks, who = true, append(who, g.Missing()...)
		}
	}
	slices.Sort(who)
	return asks, slices.Compact(who)
}

// markOf is the entry by which a partition is complete.
func markOf(partition int) string { return fmt.Sprintf("%s%03d", sweptMark, partition) }
