package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// natsContext is a context of the nats tool: a file that names a server.
type natsContext struct {
	URL         string `json:"url"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	CA          string `json:"ca"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	InboxPrefix string `json:"inbox_prefix"`
}

// selectedContext reads the context that the nats tool would use: that of
// NATS_CONTEXT, or the selected one. name is "" if there is none.
func selectedContext(getenv func(string) string) (c natsContext, name string, err error) {
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return c, "", nil
		}
		dir = filepath.Join(home, ".config")
	}
	dir = filepath.Join(dir, "nats")
	name = getenv("NATS_CONTEXT")
	if name == "" {
		b, err := os.ReadFile(filepath.Join(dir, "context.txt"))
		if errors.Is(err, fs.ErrNotExist) {
			return c, "", nil
		}
		if err != nil {
			return c, "", fmt.Errorf("read which nats context is selected: %w", err)
		}
		name = strings.TrimSpace(string(b))
	}
	if name == "" {
		return c, "", nil
	}
	if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return c, "", fmt.Errorf("nats context %q is no name", name)
	}
	b, err := os.ReadFile(filepath.Join(dir, "context", name+".json"))
	if err != nil {
		return c, "", &Error{Err: fmt.Errorf("read nats context %s: %w", name, err), Hint: "name a server with -s URL to go without it"}
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, "", fmt.Errorf("read nats context %s: %w", name, err)
	}
	for _, path := range []*string{&c.Creds, &c.NKey, &c.CA, &c.Cert, &c.Key} {
		if rest, ok := strings.CutPrefix(*path, "~/"); ok {
			*path = filepath.Join(getenv("HOME"), rest)
		}
	}
	return c, name, nil
}
