package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseMoment reads a point in time: how long ago it was, such as 90s, 2h or
// 3d; or RFC 3339; or a day, which begins at midnight here.
func ParseMoment(now time.Time, s string) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, s, now.Location()); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is no point in time", s)
}

// Moments says what ParseMoment reads, for hints.
const Moments = "such as 2h, 3d, 2026-10-31 or 2026-10-31T08:00:00Z"
