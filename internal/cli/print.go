package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// PrintJSON prints one value, indented.
func (t *Tool) PrintJSON(v any) error {
	enc := json.NewEncoder(t.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Array prints a JSON array element by element, as they come.
type Array struct {
	w    io.Writer
	open bool
}

// PrintArray begins an array.
func (t *Tool) PrintArray() *Array { return &Array{w: t.Stdout} }

// Add prints one element, on a line of its own.
func (a *Array) Add(v any) error {
	var b bytes.Buffer
	before := "[\n"
	if a.open {
		before = ",\n"
	}
	a.open = true
	b.WriteString(before)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.w.Write(bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
	return err
}

// End prints the end of the array.
func (a *Array) End() error {
	end := "\n]\n"
	if !a.open {
		end = "[]\n"
	}
	_, err := io.WriteString(a.w, end)
	return err
}

// Clean is text that came from somebody else, fit for a terminal: one line,
// without control characters.
func Clean(s string) string {
	return strings.Join(strings.Fields(CleanKeepingBlanks(s)), " ")
}

// CleanKeepingBlanks does the same, but leaves blanks as they are.
func CleanKeepingBlanks(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control):
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Clip shortens text to n characters.
func Clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Age says how long ago something was.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := now.Sub(then)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

// Time is a point in time for people.
func Time(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05.000 -07:00")
}

// Pretty is JSON on indented lines, or the text itself if it is none.
func Pretty(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}
