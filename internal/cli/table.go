package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// block is how many rows of a table are aligned to each other: rows are
	// printed while more of them are still being read.
	block = 100
	// gap is between two columns.
	gap = 2
	// narrow is what a column keeps when the table is wider than the terminal.
	narrow = 16
)

// TerminalWidth is how many columns a terminal has; 0 if the file is none.
func TerminalWidth(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Table prints rows in columns.
type Table struct {
	w      io.Writer
	width  int // that it shall not exceed; 0: any
	head   []string
	rows   [][]string // not printed yet
	widths []int      // of the columns, so far
	count  int
}

// PrintTable begins a table. Its head is printed with the first row. On a
// terminal that is too narrow for it, long cells are shortened, unless the
// format is "wide".
func (t *Tool) PrintTable(head ...string) *Table {
	table := &Table{w: t.Stdout, head: head, widths: make([]int, len(head))}
	if t.Format != "wide" {
		table.width = t.Width
	}
	return table
}

// Row prints a row. A cell is one line, whatever is in it.
func (t *Table) Row(cells ...any) error {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = Clean(fmt.Sprint(c)); texts[i] == "" {
			texts[i] = "-"
		}
	}
	if t.count == 0 {
		t.rows = append(t.rows, t.head)
	}
	t.rows = append(t.rows, texts)
	if t.count++; t.count%block == 0 {
		return t.flush()
	}
	return nil
}

// End prints what is left of the table, and returns the number of rows.
func (t *Table) End() (int, error) { return t.count, t.flush() }

func (t *Table) flush() error {
	for _, row := range t.rows {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	widths := t.fit()
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			cell = shorten(cell, widths[i])
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(t.w, b.String())
	return err
}

// fit is the columns' widths, of which the widest give up what the terminal
// does not have.
func (t *Table) fit() []int {
	widths := slices.Clone(t.widths)
	if t.width <= 0 {
		return widths
	}
	over := gap*(len(widths)-1) - t.width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if w > narrow && !isTime(t.head[i]) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the terminal breaks the lines
		}
		widths[widest]--
	}
	return widths
}

// isTime reports whether a column says when: half a time says nothing.
func isTime(head string) bool {
	switch head {
	case "AT", "LAST", "NEXT", "REGISTERED", "SINCE", "STARTED", "UPDATED":
		return true
	}
	return false
}

// shorten makes a cell fit: a name loses its middle, for what tells it from
// others is at either end; a text loses its end.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	if strings.Contains(s, " ") {
		return Clip(s, n)
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
