package worker

import (
	"testing"

	"github.com/pawlrun/pawl/statemachine"
)

// A log to which nothing was appended yet is an empty list to a handler, though
// no record knows of it: the first question of a chat has one.
func TestALogWithoutItemsIsAnEmptyList(t *testing.T) {
	for input, want := range map[string]string{
		`{"chat":{"$log":"chat","to":0}}`: `{"chat":[]}`,
		`{"chat":{"$log":"none","to":1}}`: `{"chat":{"$log":"none","to":1}}`,
	} {
		got, err := new(Worker).resolve(t.Context(), "r", map[string]statemachine.LogRef{}, []byte(input))
		if err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", input, got, err, want)
		}
	}
}
