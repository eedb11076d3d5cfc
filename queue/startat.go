package queue

import (
	"fmt"
	"time"
)

// mostAhead is how far ahead a run may be started: as long as it may sleep.
const mostAhead = 10 * 365 * 24 * time.Hour

// ParseStartAt reads when a run is to begin.
func ParseStartAt(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.64q is no time such as 2027-01-31T09:00:00+01:00 (RFC 3339)", text)
	}
	return at, CheckStartAt(at)
}

// CheckStartAt says what is wrong with when a run is to begin. A time that has
// passed means at once.
func CheckStartAt(at time.Time) error {
	if time.Until(at) > mostAhead {
		return fmt.Errorf("%s is more than ten years ahead", at.Format(time.RFC3339))
	}
	return nil
}
