package queue

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Priority orders starts that cannot all begin at once.
type Priority string

// The priorities.
const (
	High   Priority = "high"
	Normal Priority = "normal" // of a start that names none
	Low    Priority = "low"
)

// Priorities are all there are, the first served first.
func Priorities() []Priority { return []Priority{High, Normal, Low} }

// ParsePriority reads a priority.
func ParsePriority(text string) (Priority, error) {
	switch p := Priority(text); p {
	case High, Normal, Low:
		return p, nil
	}
	return "", fmt.Errorf("priority %.64q is not high, normal or low", text)
}

const maxTenant = 256 // bytes of a tenant's name

// CheckTenant says what is wrong with the name of a tenant.
func CheckTenant(tenant string) error {
	switch {
	case tenant == "":
		return fmt.Errorf("tenant is empty")
	case len(tenant) > maxTenant:
		return fmt.Errorf("tenant is %d bytes long; at most %d are allowed", len(tenant), maxTenant)
	case !utf8.ValidString(tenant):
		return fmt.Errorf("tenant is not UTF-8")
	case !FitsHeader(tenant):
		return fmt.Errorf("tenant %.64q has control characters, or blanks at its ends", tenant)
	}
	return nil
}

// Classes is how many lines each priority has. The first is for tenants with
// few starts in line.
const Classes = 4

// Line is a queue of starts that could not begin at once.
type Line struct {
	Priority Priority
	Class    int // from 1
}

// Lines are all lines, by priority and class.
func Lines() []Line {
	var all []Line
	for _, p := range Priorities() {
		for class := range Classes {
			all = append(all, Line{p, class + 1})
		}
	}
	return all
}

// Consumer is the name of the consumer of a line.
func (l Line) Consumer() string {
	return "line-" + string(l.Priority) + "-" + strconv.Itoa(l.Class)
}

// ParseLine returns the line of a consumer.
func ParseLine(consumer string) (Line, bool) {
	for _, l := range Lines() {
		if l.Consumer() == consumer {
			return l, true
		}
	}
	return Line{}, false
}
