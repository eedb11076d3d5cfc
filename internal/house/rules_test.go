package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// longest is how many lines a file may have without saying why: a "// Long:"
// line above its first declaration.
const longest = 500

// longestMain is how many lines a main.go may have.
const longestMain = 60

// sleepers may call time.Sleep: file → why.
var sleepers = map[string]string{}

// impure is what statemachine must not touch: packages, and functions of
// others.
var impure = map[string]bool{
	"math/rand": true, "math/rand/v2": true, "crypto/rand": true, "os": true, "net": true, "sync": true, "unsafe": true,
	"time.Now": true, "time.Since": true, "time.Until": true, "time.After": true, "time.AfterFunc": true,
	"time.Tick": true, "time.NewTimer": true, "time.NewTicker": true, "time.Sleep": true, "time.Local": true,
}

// loud is what writes past the logger that was handed in.
var loud = map[string]bool{
	"fmt.Print": true, "fmt.Println": true, "fmt.Printf": true,
	"log/slog.Default": true, "log/slog.Debug": true, "log/slog.Info": true, "log/slog.Warn": true, "log/slog.Error": true,
	"log/slog.DebugContext": true, "log/slog.InfoContext": true, "log/slog.WarnContext": true, "log/slog.ErrorContext": true,
	"log/slog.Log": true, "log/slog.LogAttrs": true, "log/slog.With": true,
	"log.Print": true, "log.Println": true, "log.Printf": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true,
	"log.Panic": true, "log.Panicf": true, "log.Panicln": true, "log.Default": true,
}

func TestStatemachineIsPure(t *testing.T) {
	t.Parallel()
	report(t, impurities(module(t), "statemachine"))
}

func impurities(m *tree, pkg string) (faults []string) {
	for _, f := range m.files {
		if f.pkg != pkg || f.test {
			continue
		}
		for _, i := range f.imports() {
			first, _, _ := strings.Cut(i.path, "/")
			switch {
			case strings.Contains(first, "."):
				faults = append(faults, fmt.Sprintf("%s: %s imports only the standard library, not %s", m.at(i.spec), pkg, i.path))
			case impure[i.path] || impure[first]:
				faults = append(faults, fmt.Sprintf("%s: %s must not import %s", m.at(i.spec), pkg, i.path))
			}
		}
		f.selectors(func(n ast.Node, full string) bool {
			if impure[full] {
				faults = append(faults, fmt.Sprintf("%s: %s must not use %s: time comes in as data", m.at(n), pkg, full))
			}
			return true
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				faults = append(faults, fmt.Sprintf("%s: %s must not start goroutines", m.at(g), pkg))
			}
			return true
		})
	}
	return faults
}

func TestNobodySpeaksPastItsLogger(t *testing.T) {
	t.Parallel()
	report(t, speakers(module(t)))
}

func speakers(m *tree) (faults []string) {
	for _, f := range m.files {
		if f.test || strings.HasPrefix(f.pkg, "cmd/") {
			continue
		}
		f.selectors(func(n ast.Node, full string) bool {
			if loud[full] {
				faults = append(faults, fmt.Sprintf("%s: %s outside of cmd", m.at(n), full))
			}
			return true
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "println" || id.Name == "print") {
					faults = append(faults, fmt.Sprintf("%s: %s", m.at(n), id.Name))
				}
			}
			return true
		})
	}
	return faults
}

func TestEverythingPublicIsExplained(t *testing.T) {
	t.Parallel()
	report(t, unexplained(module(t)))
}

func unexplained(m *tree) (faults []string) {
	commented := map[string]bool{}
	var folders []string
	for _, f := range m.files {
		if !slices.Contains(folders, f.pkg) {
			folders = append(folders, f.pkg)
		}
		if f.ast.Doc != nil {
			commented[f.pkg] = true
		}
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, id := range undocumented(d) {
				faults = append(faults, fmt.Sprintf("%s: %s has no comment", m.at(id), id.Name))
			}
		}
	}
	for _, pkg := range folders {
		if !commented[pkg] {
			faults = append(faults, fmt.Sprintf("%s has no package comment", pkg))
		}
	}
	return faults
}

// wellKnown are methods that every reader knows from the standard library.
var wellKnown = []string{"Error", "Unwrap", "Is", "String", "GoString", "LogValue", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText"}

// undocumented returns the exported names of a declaration that nothing is
// said about. A comment on a group speaks for its members; a method of a type
// that is not exported is nobody's API.
func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(wellKnown, d.Name.Name)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						names = append(names, n)
					}
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	report(t, tooLong(module(t)))
}

func tooLong(m *tree) (faults []string) {
	for _, f := range m.files {
		n := strings.Count(f.src, "\n")
		if strings.HasPrefix(f.pkg, "cmd/") && path.Base(f.name) == "main.go" && n > longestMain {
			faults = append(faults, fmt.Sprintf("%s has %d lines: a main has at most %d", f.name, n, longestMain))
		}
		if !f.test && n > longest && !saysWhyLong(f) {
			faults = append(faults, fmt.Sprintf("%s has %d lines: split it, or say why not in a line \"// Long: …\" above its first declaration", f.name, n))
		}
	}
	return faults
}

func saysWhyLong(f *file) bool {
	first := token.Pos(1 << 30)
	for _, d := range f.ast.Decls {
		if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
			first = d.Pos()
			break
		}
	}
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if c.Pos() < first && strings.HasPrefix(c.Text, "// Long: ") {
				return true
			}
		}
	}
	return false
}

func TestNothingIsSkipped(t *testing.T) {
	t.Parallel()
	report(t, skips(module(t), readDesign(t)))
}

// skips finds tests that may leave themselves out. What a test needs and does
// not find makes it fail.
func skips(m *tree, floor map[string]int) (faults []string) {
	for _, f := range m.files {
		if n, known := floor[f.pkg]; !f.test && (!known || n != testFloor) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s: a test must not skip itself", m.at(n)))
			}
			return true
		})
	}
	return faults
}

func TestNobodySleeps(t *testing.T) {
	t.Parallel()
	report(t, asleep(module(t), readDesign(t)))
}

// asleep finds waits that nothing can cut short.
func asleep(m *tree, floor map[string]int) (faults []string) {
	for _, f := range m.files {
		if n, known := floor[f.pkg]; f.test || known && n == testFloor || sleepers[f.name] != "" {
			continue
		}
		f.selectors(func(n ast.Node, full string) bool {
			if full == "time.Sleep" {
				faults = append(faults, fmt.Sprintf("%s: time.Sleep does not hear that its context ended", m.at(n)))
			}
			return true
		})
	}
	return faults
}

func TestNothingHappensBehindTheScenes(t *testing.T) {
	t.Parallel()
	report(t, hidden(module(t)))
}

// hidden finds dot imports and init functions.
func hidden(m *tree) (faults []string) {
	for _, f := range m.files {
		for _, i := range f.imports() {
			if i.name == "." {
				faults = append(faults, fmt.Sprintf("%s: dot import", m.at(i.spec)))
			}
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				faults = append(faults, fmt.Sprintf("%s: init function", m.at(fn)))
			}
		}
	}
	return faults
}

// Each rule finds what it is for, and nothing in what is allowed.
func TestRulesFind(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"core/a.go": `// Package core has a comment.
package core

import (
	"example.com/x"
	. "fmt"
	"log/slog"
	"math/rand/v2"
	net "net/http"
	clock "time"
)

func init() { clock.Sleep(1); go x.F(); slog.Info("x"); println(clock.Now()) }

type T struct{}

func (T) M()  {}
func (T) String() string { return "" }
func (t) Ok() {}

const A, b = 1, 2
`,
		"core/a_test.go": "package core\n\nimport \"time\"\n\nfunc f(t T) { t.Skip(); time.Sleep(1) }\n",
		"cmd/x/main.go":  "package main\n" + strings.Repeat("\n", 60),
		"long/l.go":      "package long\n\n// Long: but too late?\nvar x int\n" + strings.Repeat("\n", 500),
		"longer/l.go":    "package longer\n\nvar x int\n\n// Long: too late\n" + strings.Repeat("\n", 500),
	}
	m, err := parse("m", bad)
	if err != nil {
		t.Fatal(err)
	}
	floor := map[string]int{"core": 0}
	got := slices.Concat(impurities(m, "core"), speakers(m), unexplained(m), tooLong(m), skips(m, floor), asleep(m, floor), hidden(m))
	want := []string{
		"core/a.go:5: core imports only the standard library, not example.com/x",
		"core/a.go:8: core must not import math/rand/v2",
		"core/a.go:9: core must not import net/http",
		"core/a.go:13: core must not use time.Sleep: time comes in as data",
		"core/a.go:13: core must not use time.Now: time comes in as data",
		"core/a.go:13: core must not start goroutines",
		"core/a.go:13: log/slog.Info outside of cmd",
		"core/a.go:13: println",
		"core/a.go:15: T has no comment",
		"core/a.go:17: M has no comment",
		"core/a.go:21: A has no comment",
		"cmd/x has no package comment",
		"long has no package comment",
		"longer has no package comment",
		"cmd/x/main.go has 61 lines: a main has at most 60",
		`longer/l.go has 505 lines: split it, or say why not in a line "// Long: …" above its first declaration`,
		"core/a_test.go:5: a test must not skip itself",
		"core/a.go:13: time.Sleep does not hear that its context ended",
		"core/a.go:6: dot import",
		"core/a.go:13: init function",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
