package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	metricName = regexp.MustCompile(`^pawl_[a-z_]+$`)
	metricRow  = regexp.MustCompile(`^\| (pawl_[a-z_]+) \| (counter|gauge|histogram) \|([^|]*)\| ([^|]+) \| ((?:fleet-wide|per process)[^|]*) \| ([^|]+) \| ([^|]+) \|$`)
	declares   = regexp.MustCompile(`(?i)counter|gauge|histogram|desc`)
)

// metric is one declaration in the source.
type metric struct {
	at     string
	labels []string
}

// declared returns the metrics that the source declares: a call of something
// that makes counters, gauges, histograms or descriptions, and that is given
// the name, first or in a literal of options. Labels are the texts after name
// and help, and those of a []string.
func declared(m *tree) map[string][]metric {
	found := map[string][]metric{}
	for _, f := range m.files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !declares.MatchString(called(call)) {
				return true
			}
			if name := nameOf(call); name != "" {
				found[name] = append(found[name], metric{m.at(call), labelsOf(call)})
			}
			return true
		})
	}
	return found
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func nameOf(call *ast.CallExpr) string {
	if len(call.Args) == 0 {
		return ""
	}
	if s, ok := text(call.Args[0]); ok && metricName.MatchString(s) {
		return s
	}
	if opts, ok := call.Args[0].(*ast.CompositeLit); ok {
		for _, e := range opts.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if s, ok := text(kv.Value); ok && metricName.MatchString(s) {
					return s
				}
			}
		}
	}
	return ""
}

func labelsOf(call *ast.CallExpr) []string {
	var labels []string
	for i, arg := range call.Args {
		if s, ok := text(arg); ok && i > 1 {
			labels = append(labels, s)
		}
		if list, ok := arg.(*ast.CompositeLit); ok {
			if _, ok := list.Type.(*ast.ArrayType); ok {
				for _, e := range list.Elts {
					if s, ok := text(e); ok {
						labels = append(labels, s)
					}
				}
			}
		}
	}
	return labels
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// unlisted compares the metrics of the source with the table: their names are
// an interface, and are fixed where people can read them.
func unlisted(m *tree, table string) (faults []string) {
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| pawl_") {
			continue
		}
		row := metricRow.FindStringSubmatch(line)
		if row == nil {
			faults = append(faults, fmt.Sprintf("docs/metrics.md: a row is not name, type, labels, unit, scope, meaning, what to do: %.60s…", line))
			continue
		}
		if _, twice := rows[row[1]]; twice {
			faults = append(faults, fmt.Sprintf("docs/metrics.md has %s twice", row[1]))
		}
		rows[row[1]] = strings.FieldsFunc(row[3], func(r rune) bool { return r == ',' || r == ' ' })
	}
	all := declared(m)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, one := range all[name] {
			labels, ok := rows[name]
			switch {
			case !ok:
				faults = append(faults, fmt.Sprintf("%s: docs/metrics.md has no %s", one.at, name))
			case !slices.Equal(labels, one.labels):
				faults = append(faults, fmt.Sprintf("%s: %s has the labels %q, docs/metrics.md says %q", one.at, name, one.labels, labels))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if all[name] == nil {
			faults = append(faults, fmt.Sprintf("docs/metrics.md has %s, the source has not", name))
		}
	}
	return faults
}

func TestEveryMetricIsListed(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, unlisted(module(t), string(raw)))
}

func TestUnlistedFinds(t *testing.T) {
	t.Parallel()
	m, err := parse("m", map[string]string{"a/a.go": `package a

var (
	a = counters("pawl_a_total", "Things.", "kind", "class")
	b = p.NewGauge(p.GaugeOpts{Name: "pawl_b", Help: "Things."})
	c = p.NewHistogramVec(p.HistogramOpts{Name: "pawl_c_seconds"}, []string{"kind"})
	d = p.NewDesc("pawl_d", "Things.", []string{"kind"}, nil)
	e = read("pawl_e")
	f = histogram("pawl_f", "Things.", buckets(), "kind")
)
`})
	if err != nil {
		t.Fatal(err)
	}
	got := unlisted(m, `
| pawl_a_total | counter | kind, class | things | per process | what | do |
| pawl_bb | gauge | | things | fleet-wide | what | do |
| pawl_c_seconds | histogram | class | seconds | per process | what | do |
| pawl_d | gauge | kind | things | fleet-wide | what | do |
| pawl_d | gauge | kind | things | fleet-wide | what | do |
| pawl_f | histogram | kind | things | per process, not to be summed | what | do |
| pawl_g | gauge | | things | what | do |
`)
	want := []string{
		"docs/metrics.md has pawl_d twice",
		"docs/metrics.md: a row is not name, type, labels, unit, scope, meaning, what to do: | pawl_g | gauge | | things | what | do |…",
		"a/a.go:5: docs/metrics.md has no pawl_b",
		`a/a.go:6: pawl_c_seconds has the labels ["kind"], docs/metrics.md says ["class"]`,
		"docs/metrics.md has pawl_bb, the source has not",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
