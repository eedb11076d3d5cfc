package config

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Load reads a file and the environment (as os.Environ has it) over the
// defaults. An empty path reads no file. Warnings are lines for the log: they
// name variables that look like overrides and are none. The error, if what was
// read is at fault, is an *Error.
func Load(path string, env []string) (Config, []string, error) {
	return load(path, env, newFaults())
}

// LoadTool does what Load does, for a tool that looks at a fleet: it may be
// told of one of the two servers only.
func LoadTool(path string, env []string) (Config, []string, error) {
	f := newFaults()
	f.tool = true
	return load(path, env, f)
}

func load(path string, env []string, f *faults) (Config, []string, error) {
	c := defaults()
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return Config{}, nil, fmt.Errorf("read configuration: %w", err)
		}
		d := decoder{file: path, faults: f}
		d.document(raw, &c)
	}
	warnings := override(&c, env, f)
	secrets(&c, f)
	c.validate(f)
	if err := f.err(); err != nil {
		return Config{}, warnings, err
	}
	c.resolve()
	return c, warnings, nil
}

// override applies the variables. An empty one counts as not set, since that
// is how compose files and charts pass on what nobody gave.
func override(c *Config, env []string, f *faults) (warnings []string) {
	given := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) && value != "" {
			given[name] = value
		}
	}
	root := reflect.ValueOf(c).Elem()
	for _, k := range Keys() {
		value, ok := given[k.Env]
		if !ok {
			continue
		}
		delete(given, k.Env)
		o := origin{source: k.Env}
		f.origins[k.Path] = o
		delete(f.bad, k.Path)
		if v := root.FieldByIndex(k.index); k.Secret {
			v.SetString(value)
		} else if err := set(v, value); err != nil {
			f.unreadable(o, k.Path, "%s", says(v, value, err))
		}
	}
	for name := range given {
		warnings = append(warnings, unknown(name))
	}
	slices.Sort(warnings)
	return warnings
}

// unknown explains a variable that overrides nothing.
func unknown(name string) string {
	text := name + " is set, but overrides nothing"
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_PORT") {
		return text + " (Kubernetes sets such variables for services: enableServiceLinks: false stops it)"
	}
	names := map[string]int{}
	for _, k := range Keys() {
		if k.Env != "" {
			names[k.Env] = 0
		}
	}
	return text + hint(name, "", names)
}

// says words what is wrong with a text, without showing what a type's own
// error would.
func says(v reflect.Value, text string, err error) string {
	if v.Type() == reflect.TypeFor[slog.Level]() {
		return fmt.Sprintf("must be debug, info, warn or error, got %q", text)
	}
	return err.Error()
}

// secrets reads the files that hold secrets, unless the environment gave them.
func secrets(c *Config, f *faults) {
	root := reflect.ValueOf(c).Elem()
	keys := Keys()
	for _, k := range keys {
		if !k.Secret {
			continue
		}
		i := slices.IndexFunc(keys, func(other Key) bool { return other.Path == k.File })
		path := root.FieldByIndex(keys[i].index).String()
		if v := root.FieldByIndex(k.index); path != "" && v.String() == "" {
			raw, err := os.ReadFile(path)
			text := strings.TrimRight(string(raw), "\r\n")
			f.check(err == nil, k.File, "%v", err)
			f.check(err != nil || text != "", k.File, "%s is empty", path)
			v.SetString(text)
		}
	}
}
