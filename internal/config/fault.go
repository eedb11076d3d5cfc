package config

import (
	"fmt"
	"slices"
	"strings"
)

// Error is everything that is wrong with a configuration.
type Error struct {
	Faults []Fault
}

// Fault is one thing that is wrong.
type Fault struct {
	Source string // the file, or the variable
	Line   int    // in the file; 0 if it is not about a line
	Path   string // of the key; may be empty
	Text   string
}

// Error returns one line for each fault.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// String returns the fault as one line.
func (f Fault) String() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(f.Source)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// origin is where a value was given.
type origin struct {
	source string
	line   int
}

// faults gathers what is wrong, and knows where values came from.
type faults struct {
	origins map[string]origin
	list    []Fault
	bad     map[string]bool // paths that could not be read: their rules are not checked as well
	seen    func(path string)
	tool    bool // one of the two addresses is enough
}

func newFaults() *faults {
	return &faults{origins: map[string]origin{}, bad: map[string]bool{}}
}

// unreadable notes that a value could not be read at all.
func (f *faults) unreadable(o origin, path, format string, args ...any) {
	f.bad[path] = true
	f.list = append(f.list, Fault{Source: o.source, Line: o.line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// check notes a broken rule about the value at a path.
func (f *faults) check(ok bool, path, format string, args ...any) {
	if f.seen != nil {
		f.seen(path)
	}
	if ok || f.bad[path] {
		return
	}
	o := f.origins[path]
	f.list = append(f.list, Fault{Source: o.source, Line: o.line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// err returns the faults in the order of the file, those from elsewhere last.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Fault) int {
		switch {
		case a.Line == b.Line:
			return 0
		case a.Line == 0:
			return 1
		case b.Line == 0:
			return -1
		}
		return a.Line - b.Line
	})
	return &Error{Faults: f.list}
}
