package statemachine

import (
	"fmt"
	"slices"
	"strings"
)

// graph is, for each state, where its exits lead.
type graph map[string][]string

// graph returns all exits. A misspelt target counts as the state that was
// meant, so that one slip is one fault.
func (d *Definition) graph() graph {
	g := graph{}
	for _, n := range d.nodes {
		for _, e := range n.exits() {
			g[n.name] = append(g[n.name], d.meant(e.To))
		}
	}
	return g
}

// reaches reports whether a way of at least one exit leads from a to b.
func (g graph) reaches(a, b string) bool {
	seen := map[string]bool{}
	todo := slices.Clone(g[a])
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at == b {
			return true
		}
		if !seen[at] {
			seen[at] = true
			todo = append(todo, g[at]...)
		}
	}
	return false
}

// unbounded returns loops that nothing ends, each by the states in it. A state
// with Visits is passed only so often, so of its exits only the one that
// Visits names can be taken for ever.
func (d *Definition) unbounded() [][]string {
	g := graph{}
	for _, n := range d.nodes {
		for _, e := range n.exits() {
			if (!n.limited || e.Kind == ExitVisits) && e.Kind != ExitBudget { // that is taken once
				g[n.name] = append(g[n.name], d.meant(e.To))
			}
		}
	}
	var loops [][]string
	told := map[string]bool{}
	for _, n := range d.nodes {
		if told[n.name] || !g.reaches(n.name, n.name) {
			continue
		}
		loop := g.loop(n.name)
		for _, m := range d.nodes { // one fault for all that hang together
			if g.reaches(n.name, m.name) && g.reaches(m.name, n.name) {
				told[m.name] = true
			}
		}
		loops = append(loops, loop)
	}
	return loops
}

// loop returns a shortest way from a state back to itself.
func (g graph) loop(start string) []string {
	from := map[string]string{}
	todo := []string{start}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, to := range g[at] {
			if to == start {
				way := []string{at}
				for at != start {
					at = from[at]
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := from[to]; !seen {
				from[to] = at
				todo = append(todo, to)
			}
		}
	}
	return nil
}

// meant returns the state that a target names or, if it is misspelt, is
// nearest to.
func (d *Definition) meant(target string) string {
	if d.byName[target] != nil {
		return target
	}
	if near := d.nearest(target); near != "" {
		return near
	}
	return target
}

// nearest returns the state whose name is at most two slips away, or "".
func (d *Definition) nearest(name string) string {
	best, least := "", 3
	for _, n := range d.nodes {
		if slips := distance(n.name, name); slips < least && slips < len(name) {
			best, least = n.name, slips
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// unknownTarget words an exit that leads nowhere.
func (d *Definition) unknownTarget(e Exit) string {
	word := string(e.Kind)
	text := fmt.Sprintf("%s names no state: %q", strings.ToUpper(word[:1])+word[1:], e.To)
	if near := d.nearest(e.To); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}
