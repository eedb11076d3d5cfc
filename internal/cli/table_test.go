package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

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

// An id may have 256 bytes, a terminal 80 columns.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	id := "order-" + strings.Repeat("ä", 120) + "-4412"
	print := func(format string) string {
		var w bytes.Buffer
		table := (&Tool{Stdout: &w, Width: 80, Format: format}).PrintTable("RUN", "MACHINE", "STATE", "ERROR")
		for _, row := range [][]any{{id, "invoice@1", "post", "unavailable: " + strings.Repeat("no answer ", 20)}, {"short", "invoice@1", "done", ""}} {
			if err := table.Row(row...); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := table.End(); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	got := print("table")
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	for _, has := range []string{"order-ää", "ä-4412  invoice@1  post   unavailable: no answer", "…\n", "short  "} {
		if !strings.Contains(got, has) {
			t.Errorf("the table has no %q:\n%s", has, got)
		}
	}
	if !strings.Contains(print("wide"), id) {
		t.Error("-o wide does not print the whole id")
	}
}
