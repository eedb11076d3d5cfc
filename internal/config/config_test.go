package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const shipped = "../../config.yaml"

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lines loads a file that is expected to be at fault, and returns the lines of
// the error with the folder taken off.
func lines(t *testing.T, text string, env ...string) []string {
	t.Helper()
	path := write(t, text)
	_, _, err := Load(path, env)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Load(%q) = %v, want an *Error", text, err)
	}
	return strings.Split(strings.ReplaceAll(e.Error(), path, "config.yaml"), "\n")
}

func TestShippedFileHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := Load(shipped, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Load(config.yaml) = %v, %v", warnings, err)
	}
	want := Default()
	want.Effects.Queued, want.Effects.Bound, want.Effects.Limits = map[string]int{}, map[string]Bound{}, map[string]Limit{}
	want.Effects.Policies = map[string]Policy{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config.yaml differs from Default (-default +file):\n%s", diff)
	}
}

func TestShippedFileNamesAndExplainsEveryKey(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := join(path, key.Value)
			if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
				walk(at, value)
				continue
			}
			got = append(got, at)
			if key.HeadComment == "" {
				t.Errorf("config.yaml:%d: %s has no comment", key.Line, at)
			}
		}
	}
	walk("", doc.Content[0])
	var want []string
	for _, k := range Keys() {
		if !k.Secret {
			want = append(want, k.Path)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys of config.yaml (-struct +file):\n%s", diff)
	}
}

func TestNamesOfVariablesDoNotCollide(t *testing.T) {
	t.Parallel()
	path := map[string]string{}
	for _, k := range Keys() {
		if k.Env == "" {
			continue
		}
		if other, ok := path[k.Env]; ok {
			t.Errorf("%s and %s are both overridden by %s", k.Path, other, k.Env)
		}
		path[k.Env] = k.Path
		// Kubernetes makes variables of such names for its services.
		for word := range strings.SplitSeq(k.Path, ".") {
			if word == "port" || word == "service_host" || word == "service_port" {
				t.Errorf("%s: a key must not be named %s", k.Path, word)
			}
		}
	}
	for _, want := range []string{"PAWL_NATS_URL", "PAWL_REDIS_ADDR", "PAWL_HTTP_ADDR", "PAWL_DATA_DIR"} {
		if path[want] == "" {
			t.Errorf("%s overrides nothing", want)
		}
	}
}

// Every key can be set by its variable, to what Value shows.
func TestEveryVariableOverrides(t *testing.T) {
	t.Parallel()
	c := defaults()
	for _, k := range Keys() {
		if k.Env == "" {
			continue
		}
		v := reflect.ValueOf(&c).Elem().FieldByIndex(k.index)
		text := map[reflect.Kind]string{
			reflect.String: "text", reflect.Bool: "true", reflect.Int: "17", reflect.Float64: "1.5", reflect.Slice: "a,b",
		}[v.Kind()]
		switch v.Interface().(type) {
		case time.Duration:
			text = "1m17s"
		case Size:
			text = "17MiB"
		case slog.Level:
			text = "warn"
		}
		f := newFaults()
		if warnings := override(&c, []string{k.Env + "=" + text}, f); len(warnings) > 0 || f.err() != nil {
			t.Errorf("%s=%s: %v, %v", k.Env, text, warnings, f.err())
		}
		want := text
		if k.Secret {
			want = hidden
		}
		if got := k.Value(&c); got != want {
			t.Errorf("%s=%s gave %q", k.Env, text, got)
		}
	}
}

func TestAllFaultsAtOnceWithLineAndPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		env        []string
		want       []string
	}{
		{
			name: "three mistakes",
			file: "worker:\n  lanes: 0\n  lane: 3\nretry:\n  initial: 10\n",
			want: []string{
				"config.yaml:2: worker.lanes: must be between 1 and 64, got 0",
				"config.yaml:3: worker.lane: unknown key (did you mean worker.lanes?)",
				`config.yaml:5: retry.initial: must be a duration such as 10s or 1h30m, got "10"`,
			},
		},
		{
			name: "a variable",
			env:  []string{"PAWL_WORKER_LANES=many", "PAWL_WORKER_BATCH=0"},
			want: []string{
				`PAWL_WORKER_LANES: worker.lanes: must be a whole number, got "many"`,
				"PAWL_WORKER_BATCH: worker.batch: must be between 1 and 1000, got 0",
			},
		},
		{
			name: "only NATS",
			env:  []string{"PAWL_NATS_URL=nats://n:4222"},
			want: []string{"PAWL_NATS_URL: nats.url: is set, but redis.addr (PAWL_REDIS_ADDR) is not: a process joins both servers of a fleet, or runs both itself"},
		},
		{
			name: "only Redis",
			file: "redis:\n  addr: r:6379\n",
			want: []string{"config.yaml:2: redis.addr: is set, but nats.url (PAWL_NATS_URL) is not: a process joins both servers of a fleet, or runs both itself"},
		},
		{
			name: "real without servers",
			file: "mode: real",
			want: []string{"config.yaml:1: mode: is real, but nats.url (PAWL_NATS_URL) and redis.addr (PAWL_REDIS_ADDR) are not set"},
		},
		{
			name: "embedded with servers",
			file: "mode: embedded",
			env:  []string{"PAWL_NATS_URL=n", "PAWL_REDIS_ADDR=r:1"},
			want: []string{"config.yaml:1: mode: is embedded, but nats.url and redis.addr are set: take them away, or set mode to auto"},
		},
		{
			name: "secrets in the file",
			file: "redis:\n  addr: r:6379\n  password: hunter2\nnats:\n  url: nats://u:hunter2@n:4222\n",
			want: []string{
				"config.yaml:3: redis.password: a secret is not kept in this file: set PAWL_REDIS_PASSWORD, or name a file in redis.password_file",
				"config.yaml:5: nats.url: carries a user or a token: use nats.creds_file or nats.nkey_file, or set PAWL_NATS_URL",
			},
		},
		{
			name: "a URL that cannot be read keeps its secret",
			env:  []string{"PAWL_NATS_URL=http://u:hunter2@n:4222", "PAWL_REDIS_ADDR=redis://:hunter2@r:6379"},
			want: []string{
				`PAWL_NATS_URL: nats.url: must be nats://host:port, or several divided by commas, got "http://(hidden)@n:4222"`,
				`PAWL_REDIS_ADDR: redis.addr: is host:port, not a URL (redis.tls, redis.username and redis.password_file say the rest), got "redis://(hidden)@r:6379"`,
			},
		},
		{
			name: "embedded servers for everyone",
			file: "nats: {listen: '0.0.0.0:4222'}\nredis: {listen: ':6380'}",
			want: []string{
				`config.yaml:1: nats.listen: must be a loopback address, since embedded servers let everyone in, got "0.0.0.0:4222"`,
				`config.yaml:2: redis.listen: must be a loopback address, since embedded servers let everyone in, got ":6380"`,
			},
		},
		{
			name: "effects",
			file: "effects:\n  http:\n    allow_hosts: [\"*\"]\n  bound:\n    crm.update:\n      url: crm\n      timout: 3s\n    Crm:\n      url: http://crm\n    both: {url: 'http://crm', subject: 'pawl.start.x'}\n    wild: {subject: 'crm.*'}\n    none: {timeout: 1s}\n  queued:\n    model.chat: 0\n",
			want: []string{
				`config.yaml:3: effects.http.allow_hosts: must be host names or addresses without scheme, port and wildcard, got "*"`,
				`config.yaml:6: effects.bound[crm.update].url: must be an http or https URL, got "crm"`,
				"config.yaml:7: effects.bound[crm.update].timout: unknown key (did you mean effects.bound[crm.update].timeout?)",
				"config.yaml:9: effects.bound[Crm]: an effect's name is a lower-case word of at most 64 letters, digits, dots, - and _",
				"config.yaml:10: effects.bound[both]: has a url and a subject: one of them is needed",
				`config.yaml:10: effects.bound[both].subject: is the fleet's own, since it begins with its prefix: "pawl.start.x"`,
				`config.yaml:11: effects.bound[wild].subject: must be words of letters, digits and _ + = : @ / -, divided by dots, at most 256, got "crm.*"`,
				"config.yaml:12: effects.bound[none]: needs a url or a subject",
				"config.yaml:14: effects.queued[model.chat]: must be between 1 and 100000, got 0",
			},
		},
		{
			name: "policies",
			file: "effects:\n  policies:\n    card.charge: {attempts: 101, factor: 0.5, initial: 2m, max: 1m}\n    Card: {}\n    a: {in_doubt: hope, timeout: -1s}\n    b: {doubt: halt}\n",
			want: []string{
				"config.yaml:3: effects.policies[card.charge].attempts: must be between 1 and 100, got 101",
				"config.yaml:3: effects.policies[card.charge].factor: must be between 1 and 10, got 0.5",
				"config.yaml:3: effects.policies[card.charge].max: must not be less than initial (2m), got 1m",
				"config.yaml:4: effects.policies[Card]: an effect's name is a lower-case word of at most 64 letters, digits, dots, - and _",
				"config.yaml:5: effects.policies[a].timeout: must be between 1ms and 24h, got -1s",
				`config.yaml:5: effects.policies[a].in_doubt: must be one of repeat, verify, halt, got "hope"`,
				"config.yaml:6: effects.policies[b].doubt: unknown key",
			},
		},
		{
			name: "wrong shapes",
			file: "nats: here\nworker:\n  lanes: [1]\neffects:\n  http:\n    allow_hosts: x\nlog: [1]\nlog: 2\n",
			want: []string{
				`config.yaml:1: nats: must be keys and values, got "here"`,
				"config.yaml:3: worker.lanes: must be a single value, got a list",
				`config.yaml:6: effects.http.allow_hosts: must be a list, got "x"`,
				"config.yaml:7: log: must be keys and values, got a list",
				"config.yaml:8: log: given twice, first in line 7",
			},
		},
		{
			name: "words",
			file: "log: {level: loud, format: xml}\nhttp: {pprof: yes, addr: here}\nlimits:\n  start_size: 5GB\n  dlq_size: 1MiB\nprefix: A.b\n",
			want: []string{
				`config.yaml:1: log.level: must be debug, info, warn or error, got "loud"`,
				`config.yaml:1: log.format: must be one of text, json, got "xml"`,
				`config.yaml:2: http.pprof: must be true or false, got "yes"`,
				`config.yaml:2: http.addr: must be host:port, got "here"`,
				`config.yaml:4: limits.start_size: must be a size such as 512MiB, got "5GB"`,
				"config.yaml:5: limits.dlq_size: must be 0 (no limit) or at least 16MiB, got 1MiB",
				`config.yaml:6: prefix: must be a lower-case word of at most 32 letters, digits, - and _, got "A.b"`,
			},
		},
		{
			name: "starts over HTTP without a token",
			file: "http: {starts: {addr: ':8081', in_flight: 0}}\nmetrics: {every: 1ms}",
			want: []string{
				"config.yaml:1: http.starts.in_flight: must be between 1 and 1000, got 0",
				"config.yaml:1: http.starts.addr: is set, but there is no token: name a file in http.starts.token_file, or set PAWL_HTTP_STARTS_TOKEN",
				"config.yaml:2: metrics.every: must be between 1s and 10m, got 1ms",
			},
		},
		{
			name: "a token that can be guessed",
			env:  []string{"PAWL_HTTP_STARTS_ADDR=:8081", "PAWL_HTTP_STARTS_TOKEN=hunter2,0123456789abcdef"},
			want: []string{"http.starts.token_file: holds a token of 7 letters: at least 16 are needed"},
		},
		{
			name: "times",
			file: "retry:\n  initial: 2m\n  jitter: 1\nworker: {ack_wait: 1ms}\n",
			want: []string{
				"config.yaml:3: retry.jitter: must be between 0.1 and 0.9, got 1",
				"config.yaml:4: worker.ack_wait: must be between 300ms and 10m, got 1ms",
				"retry.max: must not be less than retry.initial (2m), got 1m",
			},
		},
		{
			name: "no YAML",
			file: "prefix: a\nmode: b: c\n",
			want: []string{"config.yaml:2: not YAML: mapping values are not allowed in this context"},
		},
		{
			name: "two documents",
			file: "prefix: a\n---\nprefix: b\n",
			want: []string{"config.yaml:2: a second document in the file: only one is read"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, lines(t, test.file, test.env...)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServersByVariablesMeanRealMode(t *testing.T) {
	t.Parallel()
	c, warnings, err := Load(shipped, []string{"PAWL_NATS_URL=nats://a:4222,nats://token@b:4222", "PAWL_REDIS_ADDR=r:6379"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Load = %v, %v", warnings, err)
	}
	if c.Mode != ModeReal || c.NATS.URL == "" || c.Redis.Addr != "r:6379" {
		t.Errorf("mode %s, %q, %q", c.Mode, c.NATS.URL, c.Redis.Addr)
	}
	if c := Default(); c.Mode != ModeEmbedded {
		t.Errorf("mode of the defaults is %s", c.Mode)
	}
}

func TestVariablesGoOverTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, "data_dir: /file\nprefix: file\nnats:\n  # nothing below\neffects:\n  http: {timeout: 7s}\n  bound:\n    a.b: {url: 'http://x'}\n  queued: {a.b: 3}\n")
	c, warnings, err := Load(path, []string{"PAWL_DATA_DIR=/env", "PAWL_PREFIX=", "HOME=/root", "PAWL_EFFECTS_HTTP_ALLOW_HOSTS=a, b"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Load = %v, %v", warnings, err)
	}
	got := []any{c.DataDir, c.Prefix, c.Effects.File.Dir, c.Effects.Bound["a.b"].Timeout, c.Effects.HTTP.AllowHosts, c.Effects.Queued["a.b"]}
	want := []any{"/env", "file", "/env/files", 7 * time.Second, []string{"a", "b"}, 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownVariablesAreWarnings(t *testing.T) {
	t.Parallel()
	_, got, err := Load("", []string{"PAWL_WORKER_LANE=3", "PAWL_NATS_PORT=tcp://10.0.0.1:4222", "PAWL_NATS_SERVICE_HOST=x", "PAWLS=1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PAWL_NATS_PORT is set, but overrides nothing (Kubernetes sets such variables for services: enableServiceLinks: false stops it)",
		"PAWL_NATS_SERVICE_HOST is set, but overrides nothing (Kubernetes sets such variables for services: enableServiceLinks: false stops it)",
		"PAWL_WORKER_LANE is set, but overrides nothing (did you mean PAWL_WORKER_LANES?)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsComeFromFilesOrVariables(t *testing.T) {
	t.Parallel()
	file := write(t, "from-file\n")
	empty := write(t, "")
	c, _, err := Load("", []string{"PAWL_REDIS_PASSWORD_FILE=" + file, "PAWL_NATS_USERNAME=u", "PAWL_NATS_PASSWORD=from-env"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Redis.Password.Reveal() + " " + c.NATS.Password.Reveal(); got != "from-file from-env" {
		t.Errorf("passwords = %s", got)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "password", c.Redis.Password)
	js, _ := json.Marshal(c)
	ys, _ := yaml.Marshal(c)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c.Redis.Password), string(js), string(ys), log.String()} {
		if strings.Contains(shown, "from-") {
			t.Errorf("shows a secret: %s", shown)
		}
	}
	_, _, err = Load("", []string{"PAWL_REDIS_PASSWORD_FILE=" + empty})
	if want := "PAWL_REDIS_PASSWORD_FILE: redis.password_file: " + empty + " is empty"; fmt.Sprint(err) != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	_, _, err = Load("", []string{"PAWL_REDIS_PASSWORD_FILE=" + empty + ".not"})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error = %v", err)
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	t.Parallel()
	if _, _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
}

// Rules name keys by text; this finds a name that is none.
func TestRulesNameKeysThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Path] = true
	}
	c, f := defaults(), newFaults()
	f.seen = func(path string) {
		if !known[path] {
			t.Errorf("a rule is about %s, which is no key", path)
		}
	}
	c.NATS.URL, c.Redis.Addr = "n", "r:1"
	c.validate(f)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{"0": 0, "17B": 17, "1KiB": 1024, "3MiB": 3 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40} {
		got, err := ParseSize(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseSize(%s) = %d (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "1", "-1B", "1.5GiB", "GiB", "9999999999TiB", "1gib"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
}

// Whatever a file says, it is either taken whole or refused with an *Error.
func FuzzConfig(f *testing.F) {
	raw, err := os.ReadFile(shipped)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	for _, text := range []string{"", "a", "- a", "a: &x [*x]", "worker: {lanes: 0}", "? {a: b}\n: c", "<<: {prefix: a}", "effects: {bound: {x: }}", "nats: !!binary x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, flt := defaults(), newFaults()
		d := decoder{file: "f", faults: flt}
		d.document([]byte(text), &c)
		c.validate(flt)
		if flt.err() == nil {
			c.resolve()
			again := newFaults()
			if c.validate(again); again.err() != nil && c.Mode == ModeAuto {
				t.Errorf("taken, but not valid: %v", again.err())
			}
		}
	})
}
