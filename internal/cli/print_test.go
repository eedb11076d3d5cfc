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
		{errors.New("a\nb"), 1, "pawl: a b\n"},
		{&Error{Err: errors.New("a"), Hint: "b"}, 1, "pawl: a (b)\n"},
		{fmt.Errorf("c: %w", &Error{Err: errors.New("a"), Hint: "b"}), 1, "pawl: c: a (b)\n"},
		{UsageErrorf("b", "a %d", 1), 2, "pawl: a 1 (b)\n"},
		{fmt.Errorf("run 1: %w", api.ErrNotFound), 1, "pawl: run 1: not found (is it the right fleet? -s URL, --prefix)\n"},
		{fmt.Errorf("read: %w", context.Canceled), 1, "pawl: interrupted\n"},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), 1, "pawl: read: context deadline exceeded (allow more time with --timeout)\n"},
	}
	for _, tt := range tests {
		var w bytes.Buffer
		if code := Report(&w, "pawl", tt.err); code != tt.code || w.String() != tt.line {
			t.Errorf("Report(%v) = %d, %q, want %d, %q", tt.err, code, w.String(), tt.code, tt.line)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	tool := &Tool{Stdout: &w}
	table := tool.PrintTable("A", "LONG", "C")
	for _, row := range [][]any{{1, "x", "end"}, {"two words", "", "a\tb\nc\x1b[1m"}} {
		if err := table.Row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := table.End(); n != 2 || err != nil {
		t.Errorf("End = %d, %v", n, err)
	}
	want := "A          LONG  C\n1          x     end\ntwo words  -     a b c\uFFFD[1m\n"
	if w.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", w.String(), want)
	}
}

// Rows are printed while more of them are still being read.
func TestTableStreams(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	table := (&Tool{Stdout: &w}).PrintTable("A")
	for range block {
		if err := table.Row("x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(w.String(), "\n"); got != block+1 {
		t.Errorf("%d lines were printed before the end, want %d", got, block+1)
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
