package queue

import (
	"strings"
	"testing"
	"time"
)

func TestParseStartAt(t *testing.T) {
	want := time.Date(2027, 1, 31, 8, 0, 0, 5, time.UTC)
	if at, err := ParseStartAt("2027-01-31T09:00:00.000000005+01:00"); err != nil || !at.Equal(want) {
		t.Errorf("ParseStartAt = %s, %v", at, err)
	}
	for text, want := range map[string]string{
		"":                     "RFC 3339",
		"tomorrow":             `"tomorrow" is no time`,
		"2027-01-31":           "RFC 3339",
		"2027-01-31T09:00:00":  "RFC 3339",
		"2999-01-31T09:00:00Z": "more than ten years ahead",
	} {
		if _, err := ParseStartAt(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseStartAt(%q) = %v, want %q", text, err, want)
		}
	}
}
