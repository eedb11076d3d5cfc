package explain

import (
	"regexp"
	"strconv"
	"strings"
)

// plainRE is what a shell takes as one word, whatever the shell.
var plainRE = regexp.MustCompile(`^[A-Za-z0-9_=:@+./][A-Za-z0-9_=:@+./-]*$`)

// word is a text as one word of a command line.
func word(text string) string {
	switch {
	case plainRE.MatchString(text):
		return text
	case strings.HasPrefix(text, "-"):
		return "-- " + quote(text)
	}
	return quote(text)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// show is the command that shows a letter.
func show(seq uint64) string {
	if seq == 0 {
		return ""
	}
	return "dlq-replayer show " + strconv.FormatUint(seq, 10)
}
