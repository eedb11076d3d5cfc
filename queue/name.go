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

// subjectRE is the grammar of subjects of services: without wildcards, and
// without those that the broker keeps for itself.
var subjectRE = regexp.MustCompile(`^[A-Za-z0-9_+=:@/-]+(\.[A-Za-z0-9_+=:@/-]+)*$`)

// SubjectGrammar says what the subject of a service is.
const SubjectGrammar = "words of letters, digits and _ + = : @ / -, divided by dots, at most 256"

// IsSubject reports whether a service may listen on a subject.
func IsSubject(subject string) bool { return len(subject) <= 256 && subjectRE.MatchString(subject) }

// FitsHeader reports whether a header carries a text as it is: without control
// characters, or blanks at its ends.
func FitsHeader(text string) bool {
	return !strings.ContainsFunc(text, unicode.IsControl) && strings.TrimSpace(text) == text
}

// NewID is an id that nobody else makes: of a run whose producer gives none,
// of a signal or a request. It has 16 characters, of a-z and 2-7.
func NewID() string { return strings.ToLower(rand.Text()[:16]) }
