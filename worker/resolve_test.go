package worker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveLogs(t *testing.T) {
	items := func(log string, to int) ([]json.RawMessage, error) {
		if log != "chat" {
			return nil, fmt.Errorf("no log %s", log)
		}
		all := []json.RawMessage{json.RawMessage(`{"a":1}`), json.RawMessage(`"b"`), json.RawMessage(`3`)}
		return all[:to], nil
	}
	tests := []struct{ name, in, want, err string }{
		{name: "none", in: `{"x":1e400}`, want: `{"x":1e400}`},
		{name: "the whole", in: `{"$log":"chat","to":2}`, want: `[{"a":1},"b"]`},
		{name: "nested", in: `{"p":{"chat":{"$log":"chat","to":1}},"n":12345678901234567890}`, want: `{"n":12345678901234567890,"p":{"chat":[{"a":1}]}}`},
		{name: "in an array", in: `[{"$log":"chat","to":0},{"$log":"chat","to":3}]`, want: `[[],[{"a":1},"b",3]]`},
		{name: "the text only", in: `"\"$log\""`, want: `"\"$log\""`},
		{name: "another", in: `{"$log":"nosuch","to":1}`, err: "no log nosuch"},
	}
	for _, tt := range tests {
		got, err := resolveLogs([]byte(tt.in), items)
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
