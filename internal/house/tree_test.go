package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder, seen from this package.
const root = "../.."

// tree is the source of the module.
type tree struct {
	module string // its path
	fset   *token.FileSet
	files  []*file
}

// file is one Go file.
type file struct {
	name string // from the root, with slashes
	pkg  string // folder from the root; "." is the root
	test bool
	src  string
	ast  *ast.File
}

// load reads every Go file below the root. It walks and parses instead of
// asking the go command, so that files for other systems are seen too, and so
// that the test cache knows what the result depends on.
var load = sync.OnceValues(func() (*tree, error) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	src := map[string]string{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != root && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || d.IsDir() {
			return nil
		}
		raw, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		src[filepath.ToSlash(rel)] = string(raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parse(modulePath(string(gomod)), src)
})

// parse makes a tree of sources by name.
func parse(module string, src map[string]string) (*tree, error) {
	t := &tree{module: module, fset: token.NewFileSet()}
	for name, text := range src {
		a, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, &file{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), src: text, ast: a})
	}
	slices.SortFunc(t.files, func(a, b *file) int { return cmp.Compare(a.name, b.name) })
	return t, nil
}

func modulePath(gomod string) string {
	for line := range strings.Lines(gomod) {
		if rest, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func module(t *testing.T) *tree {
	t.Helper()
	m, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// at is where a node stands.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// imported is one import of a file.
type imported struct {
	spec *ast.ImportSpec
	path string
	name string // that it goes by
}

func (f *file) imports() []imported {
	var list []imported
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the compiler says so
		}
		name := path.Base(p)
		if major := strings.TrimLeft(name, "v0123456789"); major == "" {
			name = path.Base(path.Dir(p)) // math/rand/v2
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		list = append(list, imported{spec, p, name})
	}
	return list
}

// own returns the folder of an import of this module.
func (t *tree) own(imported string) (pkg string, ok bool) {
	if imported == t.module {
		return ".", true
	}
	return strings.CutPrefix(imported, t.module+"/")
}

// selectors yields each pkg.Name of a file where pkg is an import, as
// "import/path.Name".
func (f *file) selectors(yield func(n ast.Node, full string) bool) {
	names := map[string]string{}
	for _, i := range f.imports() {
		names[i.name] = i.path
	}
	stop := false
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && !stop {
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
				stop = !yield(sel, names[x.Name]+"."+sel.Sel.Name)
			}
		}
		return !stop
	})
}

// report fails the test with every fault of a check.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}
