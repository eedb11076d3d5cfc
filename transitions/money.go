package transitions

import (
	"errors"
	"fmt"
	"strings"
)

// Amounts and quantities are integers: nothing here is ever rounded but the
// product of a quantity or a rate, once, half away from zero.
const (
	maxCents    = 10_000_000_000 // a hundred million: products stay within 63 bits
	maxQuantity = 100_000_000    // thousandths: a hundred thousand
)

// cents is an amount of money in hundredths of its currency. It is written as
// a decimal with two places: "261.56".
type cents int64

// MarshalText implements encoding.TextMarshaler.
func (c cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *cents) UnmarshalText(b []byte) error {
	v, err := parseDecimal(string(b), 2, maxCents)
	*c = cents(v)
	return err
}

func (c cents) String() string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}

// times is c × n/per, rounded half away from zero.
func (c cents) times(n, per int64) cents {
	product, half := int64(c)*n, per/2
	if product < 0 {
		half = -half
	}
	return cents((product + half) / per)
}

// parseDecimal reads a decimal with at most places digits after the point, as
// an integer of the smallest place. It takes no thousands separator: "1,200"
// is twelve hundred to some and one and a fifth to others.
func parseDecimal(s string, places int, limit int64) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if whole == "" || point && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no decimal number such as 1200.50", s)
	}
	if len(fraction) > places {
		return 0, fmt.Errorf("%q has more than %d digits after the point", s, places)
	}
	var v int64
	for _, d := range whole + fraction + strings.Repeat("0", places-len(fraction)) {
		v = v*10 + int64(d-'0')
		if v > limit {
			return 0, errors.New(s + " is too large")
		}
	}
	if negative {
		v = -v
	}
	return v, nil
}
