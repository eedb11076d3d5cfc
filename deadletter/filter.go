package deadletter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kinds lists the kinds of letters.
func Kinds() []Kind { return []Kind{KindStart, KindSignal, KindEffect, KindOther} }

// Filter selects letters; what is zero is not looked at.
type Filter struct {
	Kind    Kind      `json:"kind,omitempty"`
	Machine string    `json:"machine,omitempty"`
	State   string    `json:"state,omitempty"`
	Class   string    `json:"class,omitempty"`
	Effect  string    `json:"effect,omitempty"` // effect type
	Run     string    `json:"run,omitempty"`
	Print   string    `json:"fingerprint,omitempty"` // of the fault
	Build   string    `json:"build,omitempty"`       // that gave up
	Tenant  string    `json:"tenant,omitempty"`
	Since   time.Time `json:"since,omitzero"` // last failure at or after it
	Until   time.Time `json:"until,omitzero"` // last failure before it
}

// Validate says what is wrong with a filter.
func (f *Filter) Validate() error {
	if f.Kind != "" && !slices.Contains(Kinds(), f.Kind) {
		names := make([]string, 0, len(Kinds()))
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		return fmt.Errorf("kind %q is none of %s", f.Kind, strings.Join(names, ", "))
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return errors.New("since is not before until")
	}
	return nil
}

// Matches reports whether a letter is selected.
func (f *Filter) Matches(l *Letter) bool {
	if !f.Since.IsZero() && l.Last.Before(f.Since) || !f.Until.IsZero() && !l.Last.Before(f.Until) {
		return false
	}
	same := func(want, have string) bool { return want == "" || want == have }
	return same(string(f.Kind), string(l.Kind)) && same(f.Machine, l.Machine) && same(f.State, l.State) &&
		same(f.Class, l.Class) && same(f.Effect, l.Effect) && same(f.Run, l.Run) && same(f.Print, l.Print) &&
		same(f.Build, l.Build) && same(f.Tenant, l.Tenant())
}
