package transitions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/statemachine"
)

// scripted is a model that says one thing after the other: which, is told by how
// often it spoke before.
func scripted(t *testing.T, says ...string) (Model, *[]map[string]any) {
	t.Helper()
	var asked []map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		asked = append(asked, q)
		turn := 0
		for _, m := range q["messages"].([]any) {
			if m.(map[string]any)["role"] == "assistant" {
				turn++
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant",%s},"finish_reason":"stop"}],"usage":{"total_tokens":100}}`, says[min(turn, len(says)-1)])
	}))
	t.Cleanup(server.Close)
	return Model{URL: server.URL, Name: "scripted"}, &asked
}

// wants is an answer that asks for tools: name and arguments, one after the
// other.
func wants(calls ...string) string {
	var all []string
	for i := 0; i < len(calls); i += 2 {
		all = append(all, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, i/2, calls[i], calls[i+1]))
	}
	return `"content":null,"tool_calls":[` + strings.Join(all, ",") + `]`
}

const mail = `{"to":"customer-17@example.com","subject":"s","body":"b"}`

func TestAgent(t *testing.T) {
	t.Parallel()
	two := wants("text__summarise", `{"text":"One."}`, "text__summarise", `{"text":"Two."}`)
	for _, tt := range []struct {
		name, input string
		says        []string
		decide      statemachine.Verdict // of what is asked; "": nobody is, late: nobody answers
		status      statemachine.Status
		path        string
		why         string // the answer, or the cause
		last        string // the last tool message that the model was shown
	}{
		{"answers at once", `{"task":"t"}`, []string{`"content":"four"`}, "", statemachine.StatusSucceeded, "think done", "four", ""},
		{"uses two tools at once", `{"task":"t"}`, []string{two, `"content":"done"`}, "", statemachine.StatusSucceeded, "think act think done", "done", `{"text":"Two.","sentences":1}`},
		{"is allowed what is risky", `{"task":"t"}`, []string{wants("email__send", mail), `"content":"sent"`}, statemachine.Approved, statemachine.StatusSucceeded,
			"think ask act think done", "sent", `{"id":"mail-000001","to":"customer-17@example.com"}`},
		{"is refused what is risky", `{"task":"t"}`, []string{wants("email__send", mail), `"content":"not sent"`}, statemachine.Rejected, statemachine.StatusSucceeded,
			"think ask think done", "not sent", "a person refused this"},
		{"asks in vain", `{"task":"t","risky":["text.summarise"]}`, []string{two}, "late", statemachine.StatusFailed, "think ask refused", "", ""},
		{"is told that its call cannot be made", `{"task":"t","tools":["doc.fetch"]}`, []string{two, `"content":"ok"`}, "", statemachine.StatusSucceeded,
			"think think done", "ok", `error: there is no tool "text__summarise"`},
		{"is told what failed", `{"task":"t"}`, []string{wants("doc__fetch", `{"file":"none.txt"}`), `"content":"ok"`}, "", statemachine.StatusSucceeded,
			"think act think done", "ok", "error: not_found: "},
		{"uses up its tokens", `{"task":"t","budget":250}`, []string{two}, "", statemachine.StatusFailed, "think act think act think over_budget", "300 tokens were used, of 250", ""},
		{"comes to no end", `{"task":"t"}`, []string{two}, "", statemachine.StatusFailed, strings.Repeat("think act ", agentTurns) + "over_budget", "no answer after 40 turns", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, asked := scripted(t, tt.says...)
			r := run(t, Config{FileDir: t.TempDir(), Model: model}, "agent", tt.input)
			switch tt.decide {
			case "":
			case "late":
				r.Advance(agentAnswer + time.Second)
			default:
				if err := r.Decide(agentWho, tt.decide); err != nil {
					t.Fatal(err)
				}
			}
			var got agentData
			r.Data(&got)
			why := got.Answer
			if c := r.Cause(); c.Class != "" {
				why = c.Message
			}
			if r.Status() != tt.status || strings.Join(r.Path(), " ") != tt.path || !strings.HasPrefix(why, tt.why) {
				t.Fatalf("the run is %s by %v: %q, cause %+v; want %s by %s: %q", r.Status(), r.Path(), why, r.Cause(), tt.status, tt.path, tt.why)
			}
			q := (*asked)[len(*asked)-1]["messages"].([]any)
			if last, _ := q[len(q)-1].(map[string]any); tt.last != "" && !strings.HasPrefix(last["content"].(string), tt.last) {
				t.Errorf("the model was shown %v last, want %s", last, tt.last)
			}
		})
	}
}

// What the model is shown of a tool that is bound by the configuration is what
// that says; one that is not described it is not told of.
func TestAgentHasBoundTools(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"customer":17}`) }))
	t.Cleanup(service.Close)
	model, asked := scripted(t, wants("crm__find", `{"name":"x"}`), `"content":"17"`)
	schema := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)
	c := Config{FileDir: t.TempDir(), Model: model, Bound: map[string]Bound{
		"crm.find":   {URL: service.URL, Tool: Tool{Description: "Finds.", Parameters: schema, Risky: true}},
		"email.send": {URL: service.URL},
	}}
	r := run(t, c, "agent", `{"task":"t","approver":"jo"}`)
	if err := r.Decide("jo", statemachine.Approved); err != nil {
		t.Fatal(err)
	}
	if r.Status() != statemachine.StatusSucceeded {
		t.Errorf("the run is %s: %+v", r.Status(), r.Cause())
	}
	var names []string
	for _, w := range (*asked)[0]["tools"].([]any) {
		names = append(names, w.(map[string]any)["function"].(map[string]any)["name"].(string))
	}
	if want := []string{"crm__find", "doc__fetch", "text__summarise"}; !cmp.Equal(names, want) {
		t.Errorf("tools %v, want %v", names, want)
	}
	c.Bound["crm..find"] = Bound{URL: service.URL}
	for name, bad := range map[string]Config{
		"no name":       {Model: Model{URL: "http://x"}},
		"no URL":        {Model: Model{URL: "x", Name: "m"}},
		"no parameters": {Bound: map[string]Bound{"a.b": {URL: "http://x", Tool: Tool{Description: "d"}}}},
		"one name":      {Bound: map[string]Bound{"doc__fetch": {URL: "http://x", Tool: Tool{Description: "d", Parameters: schema}}}},
	} {
		if _, err := Catalog(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	model, _ := scripted(t, `"content":"x"`)
	for input, want := range map[string]string{
		`{}`:                                 "task: a text of 1 to",
		`{"task":"t","tools":["rm"]}`:        `"rm" is none of doc.fetch, email.send, text.summarise`,
		`{"task":"t","budget":-1}`:           "budget: 1 to",
		`{"task":"t","approver":"a b"}`:      "approver",
		`{"task":"t","answer":"x"}`:          "results: they cannot be given",
		`{"task":"t","chat":[{"role":"x"}]}`: "cannot be given",
	} {
		err := pawltest.Refused(t, shipped(t, Config{Model: model}), json.RawMessage(input), pawltest.Machine("agent", 0))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", input, err, want)
		}
	}
}
