package statemachine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPure checks that the package is: no clock, no chance, no world and no
// goroutines. context is allowed where handlers are declared and errors are
// told apart, since handlers are called by others.
func TestPure(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"bytes": true, "cmp": true, "crypto/sha256": true, "encoding/base64": true, "encoding/json": true, "errors": true,
		"fmt": true, "iter": true, "maps": true, "math": true, "reflect": true, "regexp": true, "runtime": true, "slices": true, "strconv": true,
		"strings": true, "time": true, "unicode/utf8": true,
	}
	fset := token.NewFileSet()
	for name, file := range sources(t, fset) {
		for _, imp := range file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if !allowed[path] && (path != "context" || name != "catalog.go" && name != "attempt.go" && name != "progress.go" && name != "errors.go") {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s: goroutines and channels are not for this package", fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
					switch n.Sel.Name {
					case "Now", "Since", "Until", "After", "Sleep", "Tick", "NewTimer", "NewTicker", "AfterFunc", "Local":
						t.Errorf("%s: time.%s", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// TestDocumented checks that every exported identifier has a comment, and that
// no file is longer than 400 lines.
func TestDocumented(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	for name, file := range sources(t, fset) {
		if n := fset.File(file.Pos()).LineCount(); n > 400 {
			t.Errorf("%s has %d lines", name, n)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && d.Name.Name != "Error" && d.Name.Name != "Unwrap" {
					t.Errorf("%s: %s has no comment", fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && d.Doc == nil {
						t.Errorf("%s: %s has no comment", fset.Position(s.Pos()), s.Name.Name)
					}
				}
			}
		}
	}
}

func sources(t *testing.T, fset *token.FileSet) map[string]*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}
