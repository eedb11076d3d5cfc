package redisstore

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	head    = regexp.MustCompile(`\A-- Promise: .+\n(?:--          .+\n)*-- KEYS:    .+\n(?:--          .+\n)*-- ARGV:    .+\n(?:--          .+\n)*-- Returns: .+\n`)
	command = regexp.MustCompile(`call\('([A-Z]+)'(?:, ?([^,)]+))?`)
	local   = regexp.MustCompile(`(?m)^\s*local ([\w, ]+) = (.+)$`)
)

func readScripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := fs.Glob(sources, "scripts/*.lua")
	if err != nil || len(files) < 2 {
		t.Fatalf("scripts = %v, %v", files, err)
	}
	bodies := make(map[string]string)
	for _, file := range files {
		b, err := sources.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bodies[strings.TrimSuffix(strings.TrimPrefix(file, "scripts/"), ".lua")] = string(b)
	}
	return bodies
}

func TestScriptsAreInOrder(t *testing.T) {
	t.Parallel()
	for name, body := range readScripts(t) {
		if !head.MatchString(body) {
			t.Errorf("%s.lua does not begin with its promise, KEYS, ARGV and Returns", name)
		}
		if n := strings.Count(body, "\n"); n > 110 {
			t.Errorf("%s.lua has %d lines, over 110", name, n)
		}
		code := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(body, "")
		if name != prelude && !strings.Contains(code, "KEYS") {
			t.Errorf("%s.lua uses no KEYS", name)
		}
		for _, word := range []string{"cmsgpack", "struct", "bit.", "cjson", "'KEYS'", "'SCAN'"} {
			if strings.Contains(code, word) {
				t.Errorf("%s.lua uses %s, which a stand-in lacks or a hot path must not", name, word)
			}
		}
	}
}

// TestScriptsBuildNoKeys holds that each command's key is an element of KEYS,
// or a local that is assigned one and nothing else.
func TestScriptsBuildNoKeys(t *testing.T) {
	t.Parallel()
	for name, body := range readScripts(t) {
		if name == prelude {
			continue // its commands are those of the callers
		}
		fromKeys := make(map[string]bool)
		for _, m := range local.FindAllStringSubmatch(body, -1) {
			values := splitTop(m[2])
			for i, n := range strings.Split(m[1], ", ") {
				isKey := i < len(values) && regexp.MustCompile(`^KEYS\[[^\]]+\]$`).MatchString(values[i])
				if was, twice := fromKeys[n]; twice {
					isKey = isKey && was
				}
				fromKeys[n] = isKey
			}
		}
		for _, m := range command.FindAllStringSubmatch(body, -1) {
			if cmd, key := m[1], m[2]; cmd != "TIME" && !strings.HasPrefix(key, "KEYS[") && !fromKeys[key] {
				t.Errorf("%s.lua: the key of %s is %q, which is not of KEYS", name, cmd, key)
			}
		}
	}
}

// splitTop divides at the commas outside of brackets.
func splitTop(s string) []string {
	var parts []string
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(s[from:]))
}

func TestScriptsAreUsed(t *testing.T) {
	t.Parallel()
	named := []string{scriptSave, scriptClaim, scriptRelease, scriptFlushed, scriptTail, scriptList, scriptCounts, scriptTidy, scriptBegin, scriptComplete, scriptTake, scriptRenew, scriptGive, prelude}
	for name := range readScripts(t) {
		if !slices.Contains(named, name) {
			t.Errorf("%s.lua is used by nothing", name)
		}
	}
	all, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range named {
		if _, ok := all[name]; !ok && name != prelude {
			t.Errorf("there is no %s.lua", name)
		}
	}
}

func design(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDesignNamesAllKeys holds the key table of DESIGN.md against keys.go.
func TestDesignNamesAllKeys(t *testing.T) {
	t.Parallel()
	k := keys{prefix: "<prefix>", shares: []string{"<prefix>:{<s>}:<incarnation>:"}}
	want := []string{
		k.run(0, "<token>"),
		strings.Replace(k.log(0, "<token>", "log"), ":log", ":<log>", 2),
		k.index(0),
		k.current(),
	}
	k.incarnation = "<incarnation>"
	for _, f := range []flowKeys{k.flow("<effect>"), k.flowOf("<effect>", ":key-<key>")} {
		want = append(want, f.permits, f.waiting, f.pace)
	}
	want[1] = strings.Replace(want[1], ":<log>", ":log", 1)
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(<prefix>[^`]+)` \\|").FindAllStringSubmatch(design(t), -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("DESIGN.md has the keys\n%q\nkeys.go makes\n%q", got, want)
	}
	for name := range readScripts(t) {
		if !strings.Contains(design(t), "`"+name+".lua`") {
			t.Errorf("DESIGN.md does not say what %s.lua promises", name)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	k, err := newKeys("pawl", "aB3_")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		k.run(7, "order-4711"):            "pawl:{7}:aB3_:run:order-4711",
		k.log(255, "~Kg", "chat log"):     "pawl:{15}:aB3_:log:~Kg:~Y2hhdCBsb2c",
		k.index(0):                        "pawl:{0}:aB3_:index2",
		k.current():                       "pawl:incarnation",
		k.all("old"):                      "pawl:{*}:old:*",
		k.run(0, "a:b"):                   "pawl:{0}:aB3_:run:a:b",
		k.log(0, "a", "b:c"):              "pawl:{0}:aB3_:log:a:b:c",
		strings.ToUpper(k.log(0, "", "")): "PAWL:{0}:AB3_:LOG::~",
	} {
		if got != want {
			t.Errorf("key = %s, want %s", got, want)
		}
	}
	for name, bad := range map[string][2]string{
		"empty incarnation":    {"pawl", ""},
		"spaced incarnation":   {"pawl", "a b"},
		"braced incarnation":   {"pawl", "a}b"},
		"starred incarnation":  {"pawl", "*"},
		"empty prefix":         {"", "a"},
		"braced prefix":        {"pa{wl", "a"},
		"prefix of a pattern":  {"pa*", "a"},
		"prefix with a space":  {"pa wl", "a"},
		"incarnation too long": {"pawl", strings.Repeat("a", 129)},
	} {
		if _, err := newKeys(bad[0], bad[1]); err == nil {
			t.Errorf("%s: newKeys(%q, %q) took it", name, bad[0], bad[1])
		}
	}
}
