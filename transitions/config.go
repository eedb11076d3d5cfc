package transitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// Config is what the shipped handlers need to know of their surroundings.
type Config struct {
	// AllowHosts lists where http.post and doc.fetch may go: a host name
	// ("api.example.com"), a domain ("*.example.com"), an address or a range
	// ("127.0.0.1", "10.0.0.0/8", "::1"), each with an optional port. Empty:
	// nowhere. See [allowList] for what a name may resolve to.
	AllowHosts []string
	// HTTPTimeout bounds one HTTP exchange of http.post and doc.fetch.
	// Default: 30 s.
	HTTPTimeout time.Duration
	// FileDir is the folder of file.append, of doc.fetch's files and of the
	// books of the shipped ledger and mail provider. It is created when it is
	// first written to. Empty: these effects are refused.
	FileDir string
	// Bound maps an effect type to the service that performs it. A shipped
	// effect of that name is replaced.
	Bound map[string]Bound
	// Model answers model.chat. Without one the machine "agent" is not shipped.
	Model Model
	// Logger is where the effect "log" writes. Default: nowhere.
	Logger *slog.Logger
	// Out is where each e-mail that is sent is shown, in two lines. Default:
	// nowhere; it is in the file outbox.jsonl below FileDir in any case.
	Out io.Writer
}

// Bound is a service that performs effects of one type, over HTTP unless it has
// a Call. It is sent the effect's input as JSON and the idempotency key as a
// header, and answers with the result. Naming a service here allows its host,
// whatever it resolves to.
type Bound struct {
	// Call reaches the service in another way; then there is no URL and no Method.
	Call func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error)

	URL     string        // http or https
	Timeout time.Duration // of one attempt; default: Config.HTTPTimeout
	Method  string        // POST (default), PUT or PATCH
	Verify  string        // URL that tells what came of a call, asked with GET and the key; "": none
	// Within and Heartbeat are those of statemachine.Policy, for what it accepts.
	Within, Heartbeat time.Duration
	// Tool makes it an effect that a model may ask for, if it is described.
	Tool Tool
}

// Tool is an effect as a model is told of it.
type Tool struct {
	Description string
	Parameters  json.RawMessage // JSON schema of the input
	Risky       bool            // a person is asked before it is performed
}

// effectName is the grammar of effect types.
var effectName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

func (c Config) withDefaults() Config {
	if c.HTTPTimeout == 0 {
		c.HTTPTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Model.Timeout == 0 {
		c.Model.Timeout = modelTimeout
	}
	bound := make(map[string]Bound, len(c.Bound))
	for name, b := range c.Bound {
		if b.Timeout == 0 {
			b.Timeout = c.HTTPTimeout
		}
		if b.Method == "" {
			b.Method = http.MethodPost
		}
		bound[name] = b
	}
	c.Bound = bound
	return c
}

// validate reports every fault of a configuration that has its defaults.
func (c Config) validate() error {
	var faults []error
	if _, err := parseAllowList(c.AllowHosts); err != nil {
		faults = append(faults, err)
	}
	if c.HTTPTimeout < 0 {
		faults = append(faults, fmt.Errorf("HTTP timeout %v is negative", c.HTTPTimeout))
	}
	if err := c.Model.validate(); err != nil {
		faults = append(faults, err)
	}
	names := map[string]string{}
	for name := range tools(c) {
		if other := names[toolName(name)]; other != "" {
			faults = append(faults, fmt.Errorf("effects %s and %s: both are the tool %s to a model", min(name, other), max(name, other), toolName(name)))
		}
		names[toolName(name)] = name
	}
	for _, name := range sortedKeys(c.Bound) {
		if err := c.Bound[name].validate(name); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (m Model) validate() error {
	u, err := url.Parse(m.URL)
	switch {
	case m.URL == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("model: url %q is not an http or https URL with a host", m.URL)
	case m.Name == "":
		return fmt.Errorf("model: %s has many: name one", m.URL)
	case m.Timeout < 0:
		return fmt.Errorf("model: timeout %v is negative", m.Timeout)
	}
	return nil
}

func (b Bound) validate(name string) error {
	var faults []error
	if b.Tool.Description != "" && !isObject(b.Tool.Parameters) {
		faults = append(faults, fmt.Errorf("bound effect %s: the parameters of the tool are no JSON object", name))
	}
	if !effectName.MatchString(name) {
		faults = append(faults, fmt.Errorf("bound effect %q: a name is %s", name, effectName))
	}
	if u, err := url.Parse(b.URL); b.Call == nil && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, fmt.Errorf("bound effect %s: url %q is not an http or https URL with a host", name, b.URL))
	}
	if u, err := url.Parse(b.Verify); b.Verify != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, fmt.Errorf("bound effect %s: verify %q is not an http or https URL with a host", name, b.Verify))
	}
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, b.Method) {
		faults = append(faults, fmt.Errorf("bound effect %s: method %q is not POST, PUT or PATCH", name, b.Method))
	}
	if b.Timeout < 0 || b.Within < 0 || b.Heartbeat < 0 {
		faults = append(faults, fmt.Errorf("bound effect %s: timeout %v, within %v or heartbeat %v is negative", name, b.Timeout, b.Within, b.Heartbeat))
	}
	return errors.Join(faults...)
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}
