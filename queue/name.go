package queue

import (
	"crypto/rand"
	"regexp"
	"strings"
	"unicode"
)

// NameGrammar is the grammar of the names of machines, states and signals, as
// people are told it.
const NameGrammar = "[a-z][a-z0-9_-]{0,63}"

var nameRE = regexp.MustCompile("^" + NameGrammar + "$")

// IsName reports whether a text can name a machine, a state or a signal, and so
// be a token of a subject.
func IsName(text string) bool { return nameRE.MatchString(text) }

// FitsHeader reports whether a header carries a text as it is: without control
// characters, or blanks at its ends.
func FitsHeader(text string) bool {
	return !strings.ContainsFunc(text, unicode.IsControl) && strings.TrimSpace(text) == text
}

// NewID is an id that nobody else makes: of a run whose producer gives none,
// of a signal or a request. It has 16 characters, of a-z and 2-7.
func NewID() string { return strings.ToLower(rand.Text()[:16]) }
