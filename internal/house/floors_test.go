package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testFloor is the floor of packages for tests only.
const testFloor = -1

// kit is the package for the tests of others: it is public, and used outside
// of _test.go files there.
const kit = "pawltest"

// catalogue is the folder that a fleet's owner edits; only commands import it,
// so that a main of one's own can bring a catalogue of its own.
const catalogue = "transitions"

var floorRow = regexp.MustCompile(`^\| (\d|test) \| ([^|]+) \|`)

// floors reads the table of DESIGN.md: folder → floor.
func floors(design string) (map[string]int, error) {
	floor := map[string]int{}
	for line := range strings.Lines(design) {
		m := floorRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			n = testFloor
		}
		for pkg := range strings.SplitSeq(m[2], ",") {
			pkg = strings.Trim(strings.TrimSpace(pkg), "`")
			if pkg == "pawl (root)" {
				pkg = "."
			}
			if _, twice := floor[pkg]; twice {
				return nil, fmt.Errorf("%s is in the table twice", pkg)
			}
			floor[pkg] = n
		}
	}
	return floor, nil
}

func readDesign(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	floor, err := floors(string(raw))
	if err != nil {
		t.Fatalf("DESIGN.md: %v", err)
	}
	if len(floor) < 20 {
		t.Fatalf("DESIGN.md: the table of floors has %d packages; is it still a table?", len(floor))
	}
	return floor
}

// misplaced finds packages without a floor, and imports that go up, sideways,
// to test packages, or to the catalogue.
func misplaced(m *tree, floor map[string]int) (faults []string) {
	unknown := map[string]bool{}
	for _, f := range m.files {
		from, ok := floor[f.pkg]
		if !ok {
			unknown[f.pkg] = true
			continue
		}
		if f.test {
			continue // tests look at the whole house
		}
		for _, i := range f.imports() {
			to, own := m.own(i.path)
			n, known := floor[to]
			if !own || !known || from == testFloor {
				continue
			}
			where := m.at(i.spec)
			switch {
			case n == testFloor:
				faults = append(faults, fmt.Sprintf("%s: %s is for tests only", where, to))
			case to == catalogue && !strings.HasPrefix(f.pkg, "cmd/"):
				faults = append(faults, fmt.Sprintf("%s: only commands import %s", where, to))
			case n == from:
				faults = append(faults, fmt.Sprintf("%s: %s and %s are both on floor %d and must not know each other", where, f.pkg, to, n))
			case n > from:
				faults = append(faults, fmt.Sprintf("%s: %s (floor %d) must not import %s (floor %d)", where, f.pkg, from, to, n))
			}
		}
	}
	for pkg := range unknown {
		faults = append(faults, fmt.Sprintf("%s has no floor: give it a row in the table of DESIGN.md", pkg))
	}
	slices.Sort(faults)
	return faults
}

func TestImportsGoDownTheFloors(t *testing.T) {
	t.Parallel()
	report(t, misplaced(module(t), readDesign(t)))
}

func TestKitIsOnlyForTests(t *testing.T) {
	t.Parallel()
	if floor := readDesign(t); floor[kit] != testFloor {
		t.Errorf("%s is on floor %d", kit, floor[kit])
	}
}

func TestMisplacedFinds(t *testing.T) {
	t.Parallel()
	floor, err := floors("| floor | package |\n|---|---|\n| 2 | `b`, c | |\n| 1 | a, transitions | |\n| 5 | cmd/x | |\n| 3 | pawl (root) | |\n| test | pawltest | |\n")
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse("m", map[string]string{
		"a/a.go":           "package a\nimport _ \"m/b\"\n",
		"a/a_test.go":      "package a\nimport (\n_ \"m\"\n_ \"m/pawltest\"\n)\n",
		"b/b.go":           "package b\nimport (\n_ \"m/a\"\n_ \"m/c\"\n_ \"m/transitions\"\n_ \"m/pawltest\"\n_ \"fmt\")\n",
		"c/c.go":           "package c\nimport _ \"m\"\n",
		"cmd/x/main.go":    "package main\nimport (\n_ \"m\"\n_ \"m/transitions\")\n",
		"pawltest/kit.go":  "package pawltest\nimport _ \"m\"\n",
		"root.go":          "package m\n",
		"transitions/t.go": "package transitions\n",
		"new/n.go":         "package n\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/a.go:2: a (floor 1) must not import b (floor 2)",
		"b/b.go:4: b and c are both on floor 2 and must not know each other",
		"b/b.go:5: only commands import transitions",
		"b/b.go:6: pawltest is for tests only",
		"c/c.go:2: c (floor 2) must not import . (floor 3)",
		"new has no floor: give it a row in the table of DESIGN.md",
	}
	if got := misplaced(m, floor); !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := floors("| 1 | a | |\n| 2 | a | |\n"); err == nil {
		t.Error("a package on two floors is taken")
	}
}
