package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.-]+\.[a-z]+/\S+|[a-z0-9.-]+\.[a-z]+) v\S+`)

// unargued returns the modules that something here imports, and that
// CONTRIBUTING.md gives no reason for: a list item that begins with the
// module's path in backquotes. What is imported counts, not the "indirect" of
// go.mod, so that the test holds before and after go mod tidy.
func unargued(m *tree, gomod, contributing string) (faults []string) {
	var modules []string
	for _, match := range requireLine.FindAllStringSubmatch(gomod, -1) {
		modules = append(modules, match[1])
	}
	user := map[string]string{}
	for _, f := range m.files {
		for _, i := range f.imports() {
			best := ""
			for _, mod := range modules {
				if (i.path == mod || strings.HasPrefix(i.path, mod+"/")) && len(mod) > len(best) {
					best = mod
				}
			}
			if best != "" && user[best] == "" {
				user[best] = f.name
			}
		}
	}
	for _, mod := range slices.Sorted(maps.Keys(user)) {
		if !strings.Contains(contributing, "\n- `"+mod+"`: ") {
			faults = append(faults, fmt.Sprintf("%s is used by %s, but CONTRIBUTING.md gives no reason for it", mod, user[mod]))
		}
	}
	return faults
}

func TestEveryModuleHasAReason(t *testing.T) {
	t.Parallel()
	var text [2]string
	for i, name := range []string{"go.mod", "CONTRIBUTING.md"} {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(raw)
	}
	report(t, unargued(module(t), text[0], text[1]))
}

func TestUnarguedFinds(t *testing.T) {
	t.Parallel()
	m, err := parse("m", map[string]string{"a/a.go": "package a\nimport (\n_ \"x.org/y/v2/z\"\n_ \"x.org/w\"\n_ \"fmt\"\n)\n"})
	if err != nil {
		t.Fatal(err)
	}
	gomod := "module m\n\nrequire (\n\tx.org/y v1.0.0\n\tx.org/y/v2 v2.0.0 // indirect\n\tx.org/unused v1.0.0\n)\n\nrequire x.org/w v0.1.0\n"
	got := unargued(m, gomod, "We use:\n- `x.org/w`: it is short.\n")
	want := []string{"x.org/y/v2 is used by a/a.go, but CONTRIBUTING.md gives no reason for it"}
	if !slices.Equal(got, want) {
		t.Errorf("faults %q, want %q", got, want)
	}
}
