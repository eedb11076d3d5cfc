package house

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var metricName = regexp.MustCompile(`^pawl_[a-z_]+$`)

// unlisted returns the metrics that the source names and DESIGN.md does not:
// their names are an interface, and are fixed where people can read them.
func unlisted(m *tree, design string) (faults []string) {
	for _, f := range m.files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				name, err := strconv.Unquote(lit.Value)
				if err == nil && metricName.MatchString(name) && !strings.Contains(design, "\n| "+name+" | ") {
					faults = append(faults, fmt.Sprintf("%s: the table of metrics in DESIGN.md has no %s", m.at(lit), name))
				}
			}
			return true
		})
	}
	return faults
}

func TestEveryMetricIsListed(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, unlisted(module(t), string(raw)))
}

func TestUnlistedFinds(t *testing.T) {
	t.Parallel()
	m, err := parse("m", map[string]string{"a/a.go": "package a\n\nvar a, b = \"pawl_a_total\", \"pawl_b\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	got := unlisted(m, "\n| pawl_a_total | counter | | things |\n| pawl_bb | |")
	want := []string{"a/a.go:3: the table of metrics in DESIGN.md has no pawl_b"}
	if !slices.Equal(got, want) {
		t.Errorf("faults %q, want %q", got, want)
	}
}
