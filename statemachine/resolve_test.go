package statemachine_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	sm "github.com/pawlrun/pawl/statemachine"
)

func TestResolveLogs(t *testing.T) {
	items := func(log string, to int) ([]json.RawMessage, bool, error) {
		if log == "broken" {
			return nil, false, fmt.Errorf("log %s is away", log)
		}
		all := []json.RawMessage{json.RawMessage(`{"a":1}`), json.RawMessage(`"b"`), json.RawMessage(`3`)}
		if log != "chat" || to > len(all) {
			return nil, false, nil
		}
		return all[:to], true, nil
	}
	tests := []struct{ name, in, want, err string }{
		{name: "none", in: `{"x":1e400}`, want: `{"x":1e400}`},
		{name: "the whole", in: `{"$log":"chat","to":2}`, want: `[{"a":1},"b"]`},
		{name: "nested", in: `{"p":{"chat":{"$log":"chat","to":1}},"n":12345678901234567890}`, want: `{"n":12345678901234567890,"p":{"chat":[{"a":1}]}}`},
		{name: "in an array", in: `[{"$log":"chat","to":0},{"$log":"chat","to":3}]`, want: `[[],[{"a":1},"b",3]]`},
		{name: "the text only", in: `"\"$log\""`, want: `"\"$log\""`},
		{name: "a log the run does not have", in: `{"$log":"nosuch","to":1}`, want: `{"$log":"nosuch","to":1}`},
		{name: "more than the log has", in: `{"$log":"chat","to":4}`, want: `{"$log":"chat","to":4}`},
		{name: "more fields than a reference has", in: `{"$log":"chat","to":1,"x":2}`, want: `{"$log":"chat","to":1,"x":2}`},
		{name: "a log that cannot be read", in: `{"$log":"broken","to":1}`, err: "log broken is away"},
	}
	for _, tt := range tests {
		got, err := sm.ResolveLogs(json.RawMessage(tt.in), items)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: error %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tt.name, err, diff)
		}
	}
}
