package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes. It is written as a whole number with a unit: B,
// KiB, MiB, GiB or TiB.
type Size int64

var units = []struct {
	name  string
	bytes Size
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1},
}

// ParseSize reads what String writes; a bare 0 needs no unit.
func ParseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if err != nil || Size(n) > (1<<62)/u.bytes {
			break
		}
		return Size(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("must be a size such as 512MiB, got %q", text)
}

// String writes the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0"
}

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
