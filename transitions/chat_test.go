package transitions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/statemachine"
)

// ask has a model behind a handler asked once, and returns what it was sent,
// what it came to, and what was told meanwhile.
func ask(t *testing.T, p prompt, answer http.HandlerFunc) (sent map[string]any, header http.Header, r reply, told []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&sent) != nil {
			t.Errorf("asked at %s: %v", r.URL.Path, sent)
		}
		answer(w, r)
	}))
	defer server.Close()
	c := &chatter{web: newCaller(&allowList{any: true}, 0), model: Model{URL: server.URL + "/v1/", Name: "tiny", Key: "secret"}, tools: shippedTools()}
	ctx := statemachine.WithProgress(t.Context(), func(item json.RawMessage) { told = append(told, string(item)) })
	r, err = c.chat(ctx, "run-1", p)
	return sent, header, r, told, err
}

func says(kind string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for _, p := range parts {
			switch {
			case kind == "text/event-stream" && p[0] == ':': // a comment
				p += "\n"
			case kind == "text/event-stream":
				p = "data: " + p + "\n\n"
			}
			fmt.Fprint(w, p)
		}
	}
}

// A model that streams is heard as it speaks; calls that come in pieces are put
// together, and the chat, the tools, the key of the effect and that of the
// provider are in the request.
func TestChatIsStreamed(t *testing.T) {
	t.Parallel()
	var chat statemachine.Log[message]
	chat.Append(message{Role: "assistant", Calls: []toolCall{{ID: "c0", Tool: "doc.fetch", Input: json.RawMessage(`{"url":"http://a"}`)}}},
		message{Role: "tool", CallID: "c0", Text: "a text"})
	sent, header, r, told, err := ask(t, prompt{System: "be brief", Task: "sum up", Chat: chat, Tools: []string{"doc.fetch", "text.summarise"}}, says("text/event-stream",
		`{"choices":[{"delta":{"role":"assistant","content":"I "}}]}`,
		`{"choices":[{"delta":{"content":"read."}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"text__summarise","arguments":"{\"te"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"rm","arguments":"{}"}},{"index":0,"function":{"arguments":"xt\":\"a\"}"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":2,"id":"c3","function":{"name":"doc__fetch","arguments":"{oops"}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"choices":[],"usage":{"total_tokens":42}}`,
		`[DONE]`))
	want := reply{Text: "I read.", Tokens: 42, Finish: "tool_calls", Calls: []toolCall{
		{ID: "c1", Tool: "text.summarise", Input: json.RawMessage(`{"text":"a"}`)},
		{ID: "c2", Tool: "rm", Input: json.RawMessage(`null`), Fault: `there is no tool "rm"`},
		{ID: "c3", Tool: "doc.fetch", Input: json.RawMessage(`null`), Fault: "the arguments are not JSON"},
	}}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Errorf("%v, the reply differs (-want +got):\n%s", err, diff)
	}
	if got := strings.Join(told, ""); got != `"I ""read."` {
		t.Errorf("told %s", got)
	}
	if header.Get("Authorization") != "Bearer secret" || header.Get("Idempotency-Key") != "run-1" || sent["model"] != "tiny" || sent["stream"] != true {
		t.Errorf("sent %v with %v", sent, header)
	}
	b, _ := json.Marshal(sent["messages"])
	const messages = `[{"content":"be brief","role":"system"},{"content":"sum up","role":"user"},` +
		`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"url\":\"http://a\"}","name":"doc__fetch"},"id":"c0","index":0,"type":"function"}]},` +
		`{"content":"a text","role":"tool","tool_call_id":"c0"}]`
	if string(b) != messages {
		t.Errorf("messages\n%s, want\n%s", b, messages)
	}
	if tools, _ := sent["tools"].([]any); len(tools) != 2 {
		t.Errorf("tools %v", sent["tools"])
	}
}

// What a model's server answers is a reply, or says what kind of failure it is.
func TestChatAnswers(t *testing.T) {
	t.Parallel()
	const length = 20
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		reply  string // its text and finish
		class  string
		unsure bool
	}{
		{"in one piece", says("application/json", `{"choices":[{"message":{"role":"assistant","content":"four"},"finish_reason":"stop"}],"usage":{"total_tokens":7}}`), "four stop", "", false},
		{"a stream without a finish, but an end", says("text/event-stream", ": hello", `{"choices":[{"delta":{"content":"four"}}]}`, "[DONE]"), "four stop", "", false},
		{"a stream that breaks off", says("text/event-stream", `{"choices":[{"delta":{"content":"fo"}}]}`), "", "", true},
		{"HTML", says("text/html", "<html>"), "", "bad_answer", false},
		{"an error in a stream", says("text/event-stream", `{"error":{"message":"out of memory"}}`), "", "bad_answer", false},
		{"nothing", says("application/json", `{"choices":[]}`), "", "bad_answer", false},
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such model", http.StatusNotFound) }, "", "http_4xx", false},
		{"too much", says("application/json", strings.Repeat(" ", maxAnswer+length)), "", "response_too_large", false},
	} {
		_, _, r, _, err := ask(t, prompt{Task: "two and two"}, tt.answer)
		got := strings.TrimSpace(r.Text + " " + r.Finish)
		switch {
		case tt.reply != "":
			if err != nil || got != tt.reply || r.Tokens == 0 {
				t.Errorf("%s: %+v, %v", tt.name, r, err)
			}
		case tt.unsure:
			if err == nil || statemachine.IsTerminal(err) {
				t.Errorf("%s: %v is no attempt that may be repeated", tt.name, err)
			}
		case statemachine.ClassOf(err) != tt.class || !statemachine.IsTerminal(err):
			t.Errorf("%s: %v of class %q, want %q", tt.name, err, statemachine.ClassOf(err), tt.class)
		}
	}
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _, _, _, err := ask(t, prompt{Task: "t"}, busy)
	if d, ok := statemachine.ThrottledFor(err); !ok || d.Seconds() != 7 {
		t.Errorf("429 is %v, throttled for %v, %v", err, d, ok)
	}
	if _, err := (&chatter{}).chat(context.Background(), "k", prompt{Tools: []string{"rm"}}); statemachine.ClassOf(err) != statemachine.ClassInvalidInput {
		t.Errorf("a tool that is none: %v", err)
	}
}
