package statemachine

import (
	"fmt"
	"strings"
)

// Diagram draws the machine as a Mermaid stateDiagram-v2.
func (d *Definition) Diagram() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%% %s version %d\nstateDiagram-v2\n", d.Name, d.Version)
	for _, u := range d.updates {
		fmt.Fprintf(&b, "%%%% takes update %s\n", u.name)
	}
	ids := make(map[string]string, len(d.nodes))
	for i, n := range d.nodes {
		ids[n.name] = diagramID(i, n.name)
	}
	for _, n := range d.nodes {
		fmt.Fprintf(&b, "    state %q as %s\n", n.title(), ids[n.name])
	}
	for i, n := range d.nodes {
		if i == 0 {
			fmt.Fprintf(&b, "    [*] --> %s\n", ids[n.name])
		}
		for _, e := range n.exits() {
			to, ok := ids[e.To]
			if !ok {
				to = "unknown"
			}
			fmt.Fprintf(&b, "    %s --> %s%s\n", ids[n.name], to, n.exitLabel(e))
		}
		if n.ends() {
			fmt.Fprintf(&b, "    %s --> [*]\n", ids[n.name])
		}
	}
	return b.String()
}

// title is what stands in a state's box.
func (n *node) title() string {
	switch n.kind {
	case KindCall:
		title := n.name + ": " + strings.Join(n.action.effects, " | ")
		if n.undo != nil {
			title += ", undone by " + strings.Join(n.undo.effects, " | ")
		}
		return title
	case KindEach:
		what := strings.Join(n.action.effects, " | ")
		if n.action.many.children {
			what = n.action.runs()
		}
		return fmt.Sprintf("%s: %s for each, %d at once", n.name, what, n.action.many.limit)
	case KindAll:
		return n.name + ": all of " + n.branchTitles()
	case KindFirst:
		return fmt.Sprintf("%s: the first %d of %s", n.name, n.action.many.need, n.branchTitles())
	case KindChild:
		title := n.name + ": " + n.action.runs()
		if n.undo != nil {
			title += ", undone by " + strings.Join(n.undo.effects, " | ")
		}
		return title
	case KindSleep:
		return n.name + ": sleeps"
	case KindSignal:
		if len(n.action.signals) == 0 {
			return n.name + ": waits for a signal"
		}
		return n.name + ": waits for " + strings.Join(n.action.signals, " | ")
	case KindApprove:
		title := n.name + ": asks for an approval"
		if n.action.tell != nil {
			title += ", told by " + strings.Join(n.action.tell.effects, " | ")
		}
		return title
	case KindRoll:
		return n.name + ": rolls"
	case KindUnwind:
		return n.name + ": undoes what was done"
	case KindFail:
		return n.name + ": fails with " + n.class
	}
	return n.name
}

// runs is what a state does that starts runs.
func (a *action) runs() string {
	if len(a.machines) == 0 {
		return "runs a machine"
	}
	return "runs " + strings.Join(a.machines, " | ")
}

// branchTitles is what is done at once.
func (n *node) branchTitles() string {
	var titles []string
	for _, b := range n.action.many.branches {
		if b.action != nil {
			titles = append(titles, (&node{name: b.name, kind: b.action.kind, action: b.action}).title())
		}
	}
	return strings.Join(titles, "; ")
}

// exitLabel is what stands at an arrow.
func (n *node) exitLabel(e Exit) string {
	switch {
	case e.Kind == ExitWhen && e.Label == "":
		return ": when"
	case e.Kind == ExitWhen:
		return ": " + e.Label
	case e.Kind == ExitCatch && e.Label == "*":
		return ": any error"
	case e.Kind == ExitCatch && strings.HasSuffix(e.Label, "*"):
		return ": errors " + e.Label
	case e.Kind == ExitCatch:
		return ": error " + e.Label
	case e.Kind == ExitWithin && n.bound > 0:
		return ": after " + n.bound.String()
	case e.Kind == ExitWithin:
		return ": too late"
	case e.Kind == ExitBudget:
		return ": over budget " + e.Label
	case e.Kind == ExitVisits:
		return fmt.Sprintf(": after %d visits", n.limit)
	case len(n.whens) > 0:
		return ": else"
	}
	return ""
}

// diagramID is a state's name in Mermaid, which has no hyphens in names and
// words of its own.
func diagramID(i int, name string) string {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }):
		return fmt.Sprintf("s%d", i)
	case name == "state", name == "note", name == "end", name == "direction", name == "as", name == "default", name == "class", name == "style":
		return fmt.Sprintf("s%d", i)
	}
	return name
}
