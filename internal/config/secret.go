package config

import "log/slog"

// Secret is a string that does not show itself: not when printed, not when
// logged, not as JSON. Reveal returns it.
type Secret string

const hidden = "(hidden)"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret, and tells only whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
