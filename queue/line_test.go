package queue

import (
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	all := Lines()
	if len(all) != 12 || all[0] != (Line{High, 1}) || all[11] != (Line{Low, Classes}) {
		t.Errorf("lines %v", all)
	}
	for _, l := range all {
		if back, ok := ParseLine(l.Consumer()); !ok || back != l {
			t.Errorf("consumer %s is of line %v, want %v", l.Consumer(), back, l)
		}
	}
	for _, name := range []string{"", "start", "line-high", "line-high-0", "line-high-5", "line-urgent-1"} {
		if l, ok := ParseLine(name); ok {
			t.Errorf("consumer %q is of line %v, want of none", name, l)
		}
	}
}

func TestParsePriority(t *testing.T) {
	for _, p := range Priorities() {
		if got, err := ParsePriority(string(p)); err != nil || got != p {
			t.Errorf("%s: %s, %v", p, got, err)
		}
	}
	for _, text := range []string{"", "High", "urgent", "1", strings.Repeat("x", 5000)} {
		if _, err := ParsePriority(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20q: %.300v, want a short error", text, err)
		}
	}
}

func TestCheckTenant(t *testing.T) {
	for _, tenant := range []string{"a", "Ä & Sons", "a.b>*", strings.Repeat("x", 256)} {
		if err := CheckTenant(tenant); err != nil {
			t.Errorf("%.20q: %v", tenant, err)
		}
	}
	for _, tenant := range []string{"", " a", "a\n", "\xff", strings.Repeat("x", 257)} {
		if err := CheckTenant(tenant); err == nil {
			t.Errorf("%.20q is taken", tenant)
		}
	}
}
