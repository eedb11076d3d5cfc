package bench

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// machine is the one that is driven.
const machine = "kitchensink"

// Load is what is driven through the fleet.
type Load struct {
	Runs     int  `json:"runs"`
	Steps    int  `json:"steps"`     // of each run
	InFlight int  `json:"inflight"`  // runs that have not ended, at most
	Queued   bool `json:"queued"`    // each step is performed by any worker, as a message of its own
	Pad      int  `json:"pad_bytes"` // of each step's input
	Warmup   int  `json:"warmup"`    // runs before the measurement, which nothing counts
}

// Check says what is wrong with the load.
func (l Load) Check() error {
	var errs []error
	positive := func(what string, n int) {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, not at least 1", what, n))
		}
	}
	positive("the number of runs", l.Runs)
	positive("the number of steps", l.Steps)
	positive("the number of runs in flight", l.InFlight)
	if l.Warmup < 0 {
		errs = append(errs, fmt.Errorf("the number of runs to warm up with is %d", l.Warmup))
	}
	if l.Pad < 0 || l.Pad > 64<<10 {
		errs = append(errs, fmt.Errorf("the padding is %d bytes, not 0 to 65536", l.Pad))
	}
	return errors.Join(errs...)
}

// input is the input of each run.
func (l Load) input() []byte {
	type step struct {
		Do     string         `json:"do"`
		Repeat int            `json:"repeat"`
		Input  map[string]any `json:"input"`
		Place  string         `json:"place,omitempty"`
	}
	s := step{Do: "noop", Repeat: l.Steps, Input: map[string]any{"pad": strings.Repeat("0", l.Pad)}}
	if l.Queued {
		s.Place = "queued"
	}
	b, err := json.Marshal(map[string]any{"steps": []step{s}})
	if err != nil {
		panic(err) // it is made of strings and numbers
	}
	return b
}

// newName begins the ids of one measurement's runs, which are those of no
// other.
func newName() string { return "bench-" + strings.ToLower(rand.Text()[:10]) + "-" }
