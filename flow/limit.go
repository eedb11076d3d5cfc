package flow

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limit bounds the effects of a type over all workers: all of them, and those
// of each flow key. What is zero is not bounded.
type Limit struct {
	Concurrency int  // under way at once
	PerKey      int  // … of one key
	Rate        Rate // begun
	RatePerKey  Rate // … of one key
}

// IsZero reports whether nothing is bounded.
func (l Limit) IsZero() bool { return l == Limit{} }

// Rate is so many in a time: 100/s, 50/m, 1000/h. They are spread over that time,
// but for what comes together in one second.
type Rate struct {
	N   int
	Per time.Duration // a second, a minute or an hour
}

// Interval is the time from one to the next, on average; 0 without a rate.
func (r Rate) Interval() time.Duration {
	if r.N <= 0 {
		return 0
	}
	return max(r.Per/time.Duration(r.N), time.Nanosecond)
}

// Burst is how many may begin together after a rest: what the rate has in a
// second, and at least one.
func (r Rate) Burst() int {
	if r.N <= 0 {
		return 0
	}
	return max(1, int(math.Floor(float64(r.N)/r.Per.Seconds())))
}

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// MaxRate bounds the number in a rate.
const MaxRate = 1_000_000

// ParseRate reads a rate as it is written: a number, a slash, and s, m or h.
// Empty is none.
func ParseRate(text string) (Rate, error) {
	if text == "" {
		return Rate{}, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	per, ok := units[unit]
	if err != nil || !ok || n < 1 || n > MaxRate {
		return Rate{}, fmt.Errorf("want a rate of 1 to %d a second, minute or hour, like 100/s, 50/m or 1000/h, got %q", MaxRate, clip(text))
	}
	return Rate{N: n, Per: per}, nil
}

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// MarshalText is String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String is the rate as it is written.
func (r Rate) String() string {
	for unit, per := range units {
		if r.N > 0 && r.Per == per {
			return strconv.Itoa(r.N) + "/" + unit
		}
	}
	return ""
}
