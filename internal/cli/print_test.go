package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/api"
)

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		code int
		line string
	}{
		{nil, 0, ""},
		{ErrSilent, 1, ""},
		{&Error{Err: ErrSilent, Code: 3}, 3, ""},
		{errors.New("\x1b[2Ja"), 1, "pawl: \uFFFD[2Ja\n"},
		{errors.New("a\nb"), 1, "pawl: a b\n"},
		{&Error{Err: errors.New("a"), Hint: "b"}, 1, "pawl: a (b)\n"},
		{fmt.Errorf("c: %w", &Error{Err: errors.New("a"), Hint: "b"}), 1, "pawl: c: a (b)\n"},
		{UsageErrorf("b", "a %d", 1), 2, "pawl: a 1 (b)\n"},
		{fmt.Errorf("run 1: %w", api.ErrNotFound), 1, "pawl: run 1: not found (is it the right fleet? -s URL, --prefix)\n"},
		{fmt.Errorf("read: %w", context.Canceled), 130, "pawl: interrupted\n"},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), 1, "pawl: read: context deadline exceeded (allow more time with --timeout)\n"},
	}
	for _, tt := range tests {
		var w bytes.Buffer
		if code := Report(&w, "pawl", tt.err); code != tt.code || w.String() != tt.line {
			t.Errorf("Report(%v) = %d, %q, want %d, %q", tt.err, code, w.String(), tt.code, tt.line)
		}
	}
}

func TestArray(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		var w bytes.Buffer
		a := (&Tool{Stdout: &w}).PrintArray()
		for i := range n {
			if err := a.Add(map[string]any{"i": i, "html": "<&>"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.End(); err != nil {
			t.Fatal(err)
		}
		var back []any
		if err := json.Unmarshal(w.Bytes(), &back); err != nil || len(back) != n || strings.Contains(w.String(), `\u`) {
			t.Errorf("an array of %d is %s, %v", n, w.String(), err)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 31, 8, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "now", 999 * time.Millisecond: "now", time.Second: "1s ago", 59 * time.Second: "59s ago",
		time.Minute: "1m ago", time.Hour: "1h ago", 47 * time.Hour: "47h ago", 48 * time.Hour: "2d ago",
	} {
		if got := Age(now, now.Add(-d)); got != want {
			t.Errorf("Age of %v = %q, want %q", d, got, want)
		}
	}
	if got := Age(now, time.Time{}); got != "" {
		t.Errorf("Age of never = %q", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"abc": "abc", "abcd": "ab…", "äöüß": "äö…"} {
		if got := Clip(in, 3); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPretty(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`{"a":1}`: "{\n  \"a\": 1\n}", "text": "text"} {
		if got := Pretty([]byte(in)); got != want {
			t.Errorf("Pretty(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 31, 8, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "2h": now.Add(-2 * time.Hour), "3d": now.AddDate(0, 0, -3), "0s": now,
		"2026-10-30": now.Add(-32 * time.Hour), "2026-10-30T10:00:00+02:00": now.Add(-24 * time.Hour),
	} {
		if got, err := ParseMoment(now, in); err != nil || !got.Equal(want) {
			t.Errorf("ParseMoment(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-2h", "-1d", "yesterday", "2026-13-01", "5"} {
		if got, err := ParseMoment(now, in); err == nil {
			t.Errorf("ParseMoment(%q) = %v", in, got)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{":                 "--input, line 1, column 2",
		"":                  "--input, line 1, column 1",
		"{\n  \"ä\": x\n}":  "--input, line 2, column 8",
		"{} {}":             "--input, line 1, column 4",
		"{\n\"a\": 1,\n}":   "--input, line 3, column 1",
		"\"\xff\" \"\xff\"": "--input, line 1, column 5",
	} {
		var v any
		e, ok := errors.AsType[*Error](JSONErrorf("--input", []byte(in), json.Unmarshal([]byte(in), &v)))
		if !ok || e.Hint != want || e.Code != Usage {
			t.Errorf("JSONErrorf(%q) = %+v, want %s", in, e, want)
		}
	}
}

func TestTooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2.11.9": true, "1.4.1": true, "2.12.0": false, "2.15.3": false, "3.0.0-beta": false, "": false, "devel": false} {
		if got := tooOld(version); got != want {
			t.Errorf("tooOld(%q) = %v", version, got)
		}
	}
}
