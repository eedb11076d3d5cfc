package statemachine

// maxName is the longest name of a machine, state, effect or index field.
const maxName = 64

// The grammars of names, as faults quote them.
const (
	nameGrammar   = "[a-z][a-z0-9_-]{0,63}"
	effectGrammar = nameGrammar + ", and single dots"
)

// validName reports whether s matches [a-z][a-z0-9_-]{0,63}, with dots
// between such characters if dots are allowed (effects).
func validName(s string, dots bool) bool {
	if s == "" || len(s) > maxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		case c == '.' && dots && s[i-1] != '.' && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}
