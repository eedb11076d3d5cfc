package natsqueue

import (
	"slices"
	"testing"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	rights := []string{"pawl.history.*.*", "pawl.effect.>", "$JS.API.STREAM.INFO.PAWL_START"}
	for _, tt := range []struct {
		name               string
		allow, deny, lacks []string
	}{
		{"nothing is said", nil, nil, nil},
		{"all of it", []string{"pawl.>", "$JS.API.>"}, nil, nil},
		{"as it is", rights, nil, nil},
		{"one of them", []string{"pawl.effect.>"}, nil, []string{rights[0], rights[2]}},
		{"too narrow", []string{"pawl.history.0.*", "pawl.effect.*", "*.*.*.*.*"}, nil, []string{rights[0], rights[1]}},
		{"denied", nil, []string{"pawl.history.0.x", "$JS.API.STREAM.INFO.*"}, []string{rights[0], rights[2]}},
		{"denied what it does not need", []string{">"}, []string{"pawl.start.>", "$JS.API.STREAM.INFO", "pawl.effect"}, nil},
	} {
		if got := Lacks(rights, tt.allow, tt.deny); !slices.Equal(got, tt.lacks) {
			t.Errorf("%s: lacks %v, want %v", tt.name, got, tt.lacks)
		}
	}
}
