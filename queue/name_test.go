package queue

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		"a": true, "report": true, "a-b_c9": true, strings.Repeat("a", 64): true,
		"": false, "A": false, "9a": false, "a.b": false, "a b": false, "a\n": false, "ä": false, "_": false, strings.Repeat("a", 65): false,
	} {
		if IsName(text) != want {
			t.Errorf("IsName(%q) = %v", text, !want)
		}
	}
}

func TestFitsHeader(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "a b": true, "ä/ü": true,
		" a": false, "a ": false, "a\nb": false, "a\tb": false, "\u00a0a": false, "a\x00": false,
	} {
		if FitsHeader(text) != want {
			t.Errorf("FitsHeader(%q) = %v", text, !want)
		}
	}
}

func TestNewID(t *testing.T) {
	a, b := NewID(), NewID()
	if a == b || len(a) != 16 || Token(a) != a || !FitsHeader(a) {
		t.Errorf("made %q and %q", a, b)
	}
}

func TestIsSubject(t *testing.T) {
	t.Parallel()
	for subject, good := range map[string]bool{
		"crm.update": true, "a": true, "A-b_c.d": true, "": false, "a.": false, ".a": false, "a..b": false, "a b": false, "a.*": false, ">": false,
		"$JS.API.INFO": false, strings.Repeat("a", 300): false,
	} {
		if got := IsSubject(subject); got != good {
			t.Errorf("IsSubject(%q) = %v", subject, got)
		}
	}
}
