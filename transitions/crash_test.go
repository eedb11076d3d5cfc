package transitions

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/statemachine"
)

// Whatever befalls them, at whichever event, the machines that ship end where
// they should, and perform each effect once.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	scripts := map[string]func(testing.TB, *pawltest.Run){
		"onboarding": func(t testing.TB, r *pawltest.Run) {
			if err := r.Decide(usualCoordinator, statemachine.Approved); err != nil {
				t.Error(err)
			}
		},
		"renewal": func(_ testing.TB, r *pawltest.Run) { r.Advance(usualNotice) },
		"asked": func(t testing.TB, r *pawltest.Run) {
			if err := r.Decide(agentWho, statemachine.Approved); err != nil {
				t.Error(err)
			}
		},
		"signalled": func(_ testing.TB, r *pawltest.Run) {
			r.Signal("1", "a", "x")
			r.Advance(time.Minute)
			r.Signal("2", "b", "y")
		},
	}
	two := wants("text__summarise", `{"text":"One."}`, "text__summarise", `{"text":"Two."}`)
	for _, tt := range []struct {
		name, machine, input string
		says                 []string // by a model
	}{
		{name: "report"}, {name: "invoice"}, {name: "onboarding"}, {name: "trip"},
		{name: "renewal", input: `{"contract":"C-1","version":2,"customer":"c","to":"c@example.com","currency":"EUR","price":"120.00"}`},
		{name: "no car", machine: "trip", input: `{"traveller":"customer-17","to":"Gdynia","nights":15,"budget":"3000.00"}`},
		{name: "agent", input: `{"task":"t"}`, says: []string{two, two, `"content":"done"`}},
		{name: "asked", machine: "agent", input: `{"task":"t"}`, says: []string{two, wants("email__send", mail), `"content":"sent"`}},
		{name: "many", machine: "kitchensink", input: `{"steps":[{"fan":[{"do":"noop"},{"do":"noop"},{"do":"noop"}],"limit":2},{"child":{"machine":"kitchensink","input":{"steps":[{"do":"noop"}]}}},{"do":"noop"}]}`},
		{name: "signalled", machine: "kitchensink", input: `{"steps":[{"await":"a","timeout":"1h"},{"sleep":"20s"},{"do":"noop"},{"await":"b","timeout":"1h"},{"do":"noop"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.machine == "" {
				tt.machine = tt.name
			}
			input := json.RawMessage(tt.input)
			if tt.input == "" {
				input, _ = Sample(tt.machine)
			}
			c := Config{FileDir: t.TempDir()}
			if tt.says != nil {
				c.Model, _ = scripted(t, tt.says...)
			}
			pawltest.CrashEverywhere(t, shipped(t, c), input, scripts[tt.name], pawltest.Machine(tt.machine, 0))
		})
	}
}
