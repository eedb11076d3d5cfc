package transitions

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestParseDecimal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in     string
		places int
		want   int64
		ok     bool
	}{
		{"0", 2, 0, true},
		{"261.56", 2, 26156, true},
		{"261.5", 2, 26150, true},
		{"261", 2, 26100, true},
		{"-0.05", 2, -5, true},
		{"1.5", 3, 1500, true},
		{"007.10", 2, 710, true},
		{"100000000", 2, maxCents, true},
		{"100000000.01", 2, 0, false},
		{"999999999999999999999999", 2, 0, false},
		{"0.005", 2, 0, false},
		{"1,200", 2, 0, false},
		{"1 200", 2, 0, false},
		{"1.", 2, 0, false},
		{".5", 2, 0, false},
		{"", 2, 0, false},
		{"-", 2, 0, false},
		{"--1", 2, 0, false},
		{"+1", 2, 0, false},
		{"1e3", 2, 0, false},
		{"١", 2, 0, false},
		{"NaN", 2, 0, false},
	}
	for _, tt := range tests {
		got, err := parseDecimal(tt.in, tt.places, maxCents)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("parseDecimal(%q, %d) = %d, %v, want %d, ok %v", tt.in, tt.places, got, err, tt.want, tt.ok)
		}
	}
}

func TestCentsTimes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		c      cents
		n, per int64
		want   cents
	}{
		{4990, 2000, 1000, 9980},
		{1, 500, 1000, 1},   // half away from zero
		{-1, 500, 1000, -1}, // on both sides
		{1, 499, 1000, 0},
		{-1, 499, 1000, 0},
		{46080, 1900, 10000, 8755},
		{maxCents, maxQuantity, 1000, maxCents * (maxQuantity / 1000)}, // no overflow
	}
	for _, tt := range tests {
		if got := tt.c.times(tt.n, tt.per); got != tt.want {
			t.Errorf("%v × %d/%d = %v, want %v", tt.c, tt.n, tt.per, got, tt.want)
		}
	}
}

func TestCentsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := cents(rapid.Int64Range(-maxCents, maxCents).Draw(t, "cents"))
		encoded, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back cents
		if err := json.Unmarshal(encoded, &back); err != nil || back != c {
			t.Fatalf("%d is written as %s and read as %d, %v", c, encoded, back, err)
		}
	})
}
