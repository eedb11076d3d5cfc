package transitions

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// Model is a language model behind an HTTP endpoint that answers chat
// completions as OpenAI's does; many servers do, local ones as well. Without a
// URL there is none, and no machine that needs one.
type Model struct {
	URL     string        // "https://api.example.com/v1", without /chat/completions
	Name    string        // of the model
	Key     string        // sent as a bearer token; "": none is needed
	Timeout time.Duration // of one call; default: 10 min
}

const (
	modelTimeout = 10 * time.Minute
	maxAnswer    = 4 << 20 // bytes of a model's answer
	maxEvent     = 1 << 20 // bytes of one event of a stream
)

// prompt is the input of model.chat: what the model is asked.
type prompt struct {
	System string                    `json:"system,omitempty"`
	Task   string                    `json:"task"`
	Chat   statemachine.Log[message] `json:"chat"` // since the task
	Tools  []string                  `json:"tools,omitempty"`
}

// message is one of a chat, after the task.
type message struct {
	Role   string     `json:"role"` // assistant or tool
	Text   string     `json:"text,omitempty"`
	Calls  []toolCall `json:"calls,omitempty"`   // assistant: what it wants done
	CallID string     `json:"call_id,omitempty"` // tool: which call this answers
}

// toolCall is an effect that the model asks for.
type toolCall struct {
	ID    string          `json:"id"`
	Tool  string          `json:"tool"`            // effect type
	Input json.RawMessage `json:"input"`           // null if there is a fault
	Fault string          `json:"fault,omitempty"` // what is wrong with the call
}

// reply is the result of model.chat.
type reply struct {
	Text   string     `json:"text,omitempty"`
	Calls  []toolCall `json:"calls,omitempty"`
	Tokens int        `json:"tokens"` // of the question and the answer, as the server counts; else a fourth of their bytes
	Finish string     `json:"finish"` // stop, tool_calls, length, …
}

// chatter performs model.chat.
type chatter struct {
	web   *caller
	model Model
	tools map[string]Tool // by effect type
}

// The chat as the endpoint has it.
type (
	wireRequest struct {
		Model    string         `json:"model"`
		Messages []wireMessage  `json:"messages"`
		Tools    []wireTool     `json:"tools,omitempty"`
		Stream   bool           `json:"stream"`
		Options  map[string]any `json:"stream_options,omitempty"`
	}
	wireMessage struct {
		Role    string     `json:"role,omitempty"`
		Content *string    `json:"content"` // null where there are only calls
		Calls   []wireCall `json:"tool_calls,omitempty"`
		CallID  string     `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		Index    int    `json:"index"` // in a stream: which call this is a piece of
		ID       string `json:"id,omitempty"`
		Type     string `json:"type,omitempty"`
		Function struct {
			Name      string `json:"name,omitempty"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	wireTool struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	// wireAnswer is a whole answer, or a piece of one in a stream.
	wireAnswer struct {
		Choices []struct {
			Message wireMessage `json:"message"`
			Delta   wireMessage `json:"delta"`
			Finish  string      `json:"finish_reason"`
		} `json:"choices"`
		Usage *struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
)

// toolName is an effect type as models may name a function, which has no dots.
func toolName(effect string) string { return strings.ReplaceAll(effect, ".", "__") }

// chat asks the model. Who watches the run sees its answer come.
func (c *chatter) chat(ctx context.Context, key string, p prompt) (reply, error) {
	question, err := c.question(p)
	if err != nil {
		return reply{}, invalid(err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream, application/json"}}
	if c.model.Key != "" {
		header.Set("Authorization", "Bearer "+c.model.Key)
	}
	res, where, err := c.web.send(ctx, call{method: http.MethodPost, url: strings.TrimSuffix(c.model.URL, "/") + "/chat/completions", header: header, body: question, key: key})
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body := &io.LimitedReader{R: res.Body, N: maxAnswer + 1}
	if res.StatusCode != http.StatusOK {
		says, _ := io.ReadAll(body)
		if err := judge(where, res, says); err != nil {
			return reply{}, err
		}
	}
	var a answer
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" {
		err = a.stream(body, func(text string) { _ = statemachine.Progress(ctx, text) })
	} else {
		err = a.whole(body)
	}
	switch {
	case body.N <= 0:
		return reply{}, tooLarge(where, maxAnswer)
	case errors.Is(err, errNoAnswer):
		return reply{}, statemachine.Terminal("bad_answer", fmt.Errorf("%s: %w", where, err))
	case err != nil:
		return reply{}, broken(where, err)
	}
	return a.reply(p.Tools, len(question)), nil
}

// question is the body of the request.
func (c *chatter) question(p prompt) ([]byte, error) {
	r := wireRequest{Model: c.model.Name, Stream: true, Options: map[string]any{"include_usage": true}}
	if p.System != "" {
		r.Messages = append(r.Messages, wireMessage{Role: "system", Content: &p.System})
	}
	r.Messages = append(r.Messages, wireMessage{Role: "user", Content: &p.Task})
	for _, m := range p.Chat.Items() {
		w := wireMessage{Role: m.Role, CallID: m.CallID}
		if m.Text != "" || len(m.Calls) == 0 {
			w.Content = &m.Text
		}
		for _, t := range m.Calls {
			call := wireCall{Index: len(w.Calls), ID: t.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = toolName(t.Tool), string(t.Input)
			w.Calls = append(w.Calls, call)
		}
		r.Messages = append(r.Messages, w)
	}
	for _, name := range p.Tools {
		t, ok := c.tools[name]
		if !ok {
			return nil, fmt.Errorf("%q is no tool", name)
		}
		w := wireTool{Type: "function"}
		w.Function.Name, w.Function.Description, w.Function.Parameters = toolName(name), t.Description, t.Parameters
		r.Tools = append(r.Tools, w)
	}
	return json.Marshal(r)
}

// errNoAnswer is a response that is none of a chat.
var errNoAnswer = errors.New("the response is no chat completion")

// answer gathers what a model says.
type answer struct {
	text   strings.Builder
	calls  []wireCall
	finish string
	tokens int
	some   bool // it has said something
}

// whole reads an answer that comes in one piece.
func (a *answer) whole(r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := a.add(body); err != nil {
		return err
	}
	if !a.some {
		return errNoAnswer
	}
	return nil
}

// stream reads an answer that comes as server-sent events. It has broken off if
// the last piece, which says why it ends, is not there.
func (a *answer) stream(r io.Reader, tell func(text string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		data = bytes.TrimSpace(data)
		if !ok || len(data) == 0 {
			continue // comments, names of events, ends of events
		}
		if string(data) == "[DONE]" {
			a.finish = cmp.Or(a.finish, "stop")
			break
		}
		before := a.text.Len()
		if err := a.add(data); err != nil {
			return err
		}
		if text := a.text.String()[before:]; text != "" {
			tell(text)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if a.finish == "" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// add adds a piece, or the whole.
func (a *answer) add(data []byte) error {
	var w wireAnswer
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if w.Error != nil {
		return fmt.Errorf("%w: the server says: %s", errNoAnswer, clip(w.Error.Message))
	}
	if w.Usage != nil {
		a.tokens = w.Usage.Total
	}
	if len(w.Choices) == 0 {
		if w.Usage == nil {
			return errNoAnswer
		}
		return nil // the last piece of a stream has the usage alone
	}
	c := w.Choices[0]
	for _, m := range []wireMessage{c.Message, c.Delta} {
		if m.Content != nil {
			a.text.WriteString(*m.Content)
		}
		for i, call := range m.Calls {
			at := call.Index
			if m.Role != "" && len(c.Message.Calls) > 0 {
				at = i // a whole answer need not number them
			}
			a.piece(at, call)
		}
	}
	if c.Finish != "" {
		a.finish = c.Finish
	}
	a.some = true
	return nil
}

// piece adds a piece of a call.
func (a *answer) piece(at int, call wireCall) {
	i := slices.IndexFunc(a.calls, func(c wireCall) bool { return c.Index == at })
	if i < 0 {
		i = len(a.calls)
		a.calls = append(a.calls, wireCall{Index: at})
	}
	c := &a.calls[i]
	c.ID += call.ID
	c.Function.Name += call.Function.Name
	c.Function.Arguments += call.Function.Arguments
}

// reply is the answer as the machine has it. A call that cannot be made is one
// with a fault, of which the model is told.
func (a *answer) reply(tools []string, asked int) reply {
	r := reply{Text: a.text.String(), Finish: a.finish, Tokens: a.tokens}
	if r.Tokens == 0 {
		r.Tokens = (asked + len(r.Text)) / 4
	}
	for i, c := range a.calls {
		t := toolCall{ID: cmp.Or(c.ID, fmt.Sprint("call-", i)), Tool: c.Function.Name, Input: json.RawMessage("null")}
		at := slices.IndexFunc(tools, func(effect string) bool { return toolName(effect) == c.Function.Name })
		if at >= 0 {
			t.Tool = tools[at]
		}
		arguments := strings.TrimSpace(c.Function.Arguments)
		switch {
		case at < 0:
			t.Fault = fmt.Sprintf("there is no tool %q", clip(c.Function.Name))
		case arguments == "":
			t.Input = json.RawMessage("{}")
		case !json.Valid([]byte(arguments)):
			t.Fault = "the arguments are not JSON"
		default:
			t.Input = json.RawMessage(arguments)
		}
		r.Calls = append(r.Calls, t)
	}
	return r
}
