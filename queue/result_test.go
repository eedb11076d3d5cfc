package queue

import (
	"strings"
	"testing"
)

// A token is read by who has the secret, whole and unchanged only.
func TestResultTokens(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	for _, c := range []Callback{{"r", "e", 1}, {strings.Repeat("ü", 128), "b7TIOUGNsKQ--6LbKgJ39w", 300}, {"a b\nc", "e", 7}} {
		token := c.Token(secret)
		if got, ok := ParseCallback(secret, token); !ok || got != c {
			t.Errorf("token of %+v is read as %+v, %v", c, got, ok)
		}
		if len(token) > 512 || strings.ContainsAny(token, ".*> \n") {
			t.Errorf("token %q of %d bytes", token, len(token))
		}
		if _, ok := ParseCallback([]byte("another secret of another fleet"), token); ok {
			t.Error("a token of another fleet is taken")
		}
		for i := range token {
			other := token[:i] + string("AB"[map[bool]int{true: 1}[token[i] == 'A']]) + token[i+1:]
			if _, ok := ParseCallback(secret, other); ok {
				t.Errorf("a token changed at %d is taken", i)
			}
		}
		for n := range token {
			if _, ok := ParseCallback(secret, token[:n]); ok {
				t.Errorf("a token cut at %d is taken", n)
			}
		}
	}
	if _, ok := ParseCallback(nil, Callback{"r", "e", 1}.Token(nil)); ok {
		t.Error("a token is taken where there is no secret")
	}
}
