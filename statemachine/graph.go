package statemachine

import (
	"fmt"
	"slices"
	"strings"
)

// compile resolves the exits of the states, notes every fault of the machine
// and computes its hash.
func (d *Definition) compile() {
	d.byName = make(map[string]*node, len(d.nodes))
	for i, n := range d.nodes {
		n.next = n.then
		if n.action != nil {
			n.budgets = d.budgets
		}
		if n.next == "" && !n.ends() && i+1 < len(d.nodes) {
			n.next = d.nodes[i+1].name
		}
		if d.byName[n.name] == nil {
			d.byName[n.name] = n
		}
	}
	d.checkMachine()
	d.checkBudgets()
	for i, n := range d.nodes {
		d.checkState(i, n)
	}
	g := d.graph()
	d.checkPaths(g)
	for _, n := range d.nodes {
		n.again = n.limited || g.reaches(n.name, n.name)
	}
	d.Hash = d.hash()
}

// performs reports whether the state asks for effects.
func (n *node) performs() bool { return n.action != nil && len(n.action.effects) > 0 }

// givesUp reports whether something of the state can be given up.
func (n *node) givesUp() bool {
	if n.kind == KindCall || n.kind == KindChild || n.performs() {
		return true
	}
	m := (*many)(nil)
	if n.action != nil {
		m = n.action.many
	}
	return m != nil && (m.children || slices.ContainsFunc(m.branches, func(b branch) bool { return b.kind() == KindChild }))
}

func (n *node) ends() bool { return n.kind == KindSucceed || n.kind == KindFail }

// hash identifies the static graph: states in order, their kinds and effects,
// and their exits. Limits and time-outs may be tuned without a new version.
func (d *Definition) hash() string {
	var b strings.Builder
	for _, n := range d.nodes {
		fmt.Fprintf(&b, "state %q %s %q", n.name, n.kind, n.class)
		if n.performs() && !n.action.open {
			fmt.Fprintf(&b, " %q", n.action.effects)
		}
		if n.action != nil && len(n.action.machines) > 0 {
			fmt.Fprintf(&b, " %q", n.action.machines)
		}
		if n.action != nil && len(n.action.signals) > 0 {
			fmt.Fprintf(&b, " %q", n.action.signals)
		}
		if n.action != nil && n.action.many != nil {
			for _, br := range n.action.many.branches {
				fmt.Fprintf(&b, " branch %q %s", br.name, br.kind())
			}
			if n.action.many.need > 0 {
				fmt.Fprintf(&b, " first %d", n.action.many.need)
			}
		}
		for _, a := range n.tells() {
			if !a.open {
				fmt.Fprintf(&b, " tell %q", a.effects)
			}
		}
		if n.undo != nil {
			fmt.Fprint(&b, " undo")
			if !n.undo.open {
				fmt.Fprintf(&b, " %q", n.undo.effects)
			}
		}
		for _, e := range n.exits() {
			label := e.Label
			if e.Kind == ExitWhen {
				label = "" // the name of a predicate is not part of the graph
			}
			fmt.Fprintf(&b, " %s %q %q", e.Kind, label, e.To)
		}
		b.WriteByte('\n')
	}
	for _, u := range d.updates { // else another build would refuse them
		fmt.Fprintf(&b, "update %q\n", u.name)
	}
	return digest([]byte(d.Name), fmt.Append(nil, d.Version), []byte(b.String()))
}

// checkMachine checks what is of no one state.
func (d *Definition) checkMachine() {
	if !validName(d.Name, false) {
		d.fault("", "not a name (%s)", nameGrammar)
	}
	if d.Version < 1 {
		d.fault("", "a version is 1 or more")
	}
	if len(d.nodes) == 0 {
		d.fault("", "has no states")
	} else if !slices.ContainsFunc(d.nodes, (*node).ends) {
		d.fault("", "has no end: no Succeed and no Fail")
	}
	d.checkQueries()
	d.checkUpdates()
	if len(d.indexes) > MaxIndexes {
		d.fault("", "has %d index fields, at most %d are allowed", len(d.indexes), MaxIndexes)
	}
	seen := map[string]bool{}
	for _, ix := range d.indexes {
		switch {
		case !validName(ix.name, false):
			d.fault("", "index %q: not a name (%s)", ix.name, nameGrammar)
		case seen[ix.name]:
			d.fault("", "index %q: declared twice", ix.name)
		case ix.value == nil:
			d.fault("", "index %q: has no function", ix.name)
		}
		seen[ix.name] = true
	}
}

// checkState checks one state by itself, and that its targets exist.
func (d *Definition) checkState(i int, n *node) {
	if !validName(n.name, false) {
		d.fault(n.name, "not a name (%s)", nameGrammar)
	}
	if d.byName[n.name] != n {
		d.fault(n.name, "declared twice")
	}
	if n.kind == KindFail && n.class == "" {
		d.fault(n.name, "Fail names no class")
	}
	if len(n.doubled) > 0 {
		d.fault(n.name, "has more than one Then")
	}
	if n.next == "" && !n.ends() {
		d.fault(n.name, "has no Then, and no state follows in the file")
	}
	if n.limited && n.limit < 1 {
		d.fault(n.name, "Visits allows %d visits, it must be 1 or more", n.limit)
	}
	for _, w := range n.whens {
		if w.pred == nil {
			d.fault(n.name, "When to %q has no predicate", w.to)
		}
	}
	d.checkCatches(n)
	d.checkUndo(n)
	d.checkBound(n)
	d.checkAction(n, n.action)
	d.checkAction(n, n.undo)
	for _, e := range n.exits() {
		if d.byName[e.To] == nil && e.Kind != ExitBudget { // said once, of the machine
			d.fault(n.name, "%s", d.unknownTarget(e))
		}
	}
}

func (d *Definition) checkCatches(n *node) {
	if len(n.catches) > 0 && !n.givesUp() {
		d.fault(n.name, "Catch in a state that performs no effect")
	}
	if len(n.catches) > 0 && n.kind == KindEach && n.action.many.tolerate < 0 {
		d.fault(n.name, "Catch in an Each whose items may all be given up: it is never reached without Tolerate")
	}
	for i, c := range n.catches {
		switch {
		case c.class == "":
			d.fault(n.name, "Catch to %q names no class", c.to)
		case strings.Contains(strings.TrimSuffix(c.class, "*"), "*"):
			d.fault(n.name, "Catch of %q to %q: a * stands at the end, for any rest", c.class, c.to)
		case slices.ContainsFunc(n.catches[:i], func(earlier catch) bool { return earlier.catches(c.class) }):
			d.fault(n.name, "Catch of %q to %q is never reached: an earlier one catches it", c.class, c.to)
		}
	}
}

func (d *Definition) checkUndo(n *node) {
	if n.undo != nil && n.action != nil && n.action.many != nil {
		d.fault(n.name, "Undo in a state that does many at once: which of them is there to undo when the run ends in between cannot be said")
	} else if n.undo != nil && n.kind != KindCall && n.kind != KindChild {
		d.fault(n.name, "Undo in a state that performs no effect")
	}
	if n.undo != nil && n.undo.kind != KindCall {
		d.fault(n.name, "Undo that performs no effect")
	}
	if n.undo != nil && n.bounded {
		d.fault(n.name, "Within in a state with an Undo: when it takes too long, nobody can say whether there is something to undo")
	}
	if n.undoTwice {
		d.fault(n.name, "has more than one Undo")
	}
}

func (d *Definition) checkAction(n *node, a *action) {
	if a == nil {
		return
	}
	switch {
	case a.many != nil:
		d.checkMany(n, a)
	case a.kind == KindChild:
		d.checkChild(n, a)
	case a.kind == KindApprove:
		d.checkApproval(n, a)
		return
	case a.kind != KindCall:
		d.checkWait(n, a)
		return
	default:
		d.checkCall(n, a)
	}
	if a.timeout < 0 {
		d.fault(n.name, "Timeout is negative")
	}
	for _, e := range a.effects {
		if !validName(e, true) {
			d.fault(n.name, "effect %q: not a name (%s)", e, effectGrammar)
		}
	}
}

func (d *Definition) checkCall(n *node, a *action) {
	if len(a.effects) == 0 {
		d.fault(n.name, "CallOf has no tools")
	}
	if a.pick == nil {
		d.fault(n.name, "CallOf has no function that picks")
	}
}

// checkChild checks an action that starts a run.
func (d *Definition) checkChild(n *node, a *action) {
	if a.pick == nil {
		d.fault(n.name, "ChildOf has no function that picks")
	}
	d.checkMachines(n, a)
}

// checkMachines checks the names of the machines that an action starts.
func (d *Definition) checkMachines(n *node, a *action) {
	for _, m := range a.machines {
		if !validName(m, false) {
			d.fault(n.name, "child of machine %q: not a name (%s)", m, nameGrammar)
		}
	}
}

// checkWait checks an action that waits.
func (d *Definition) checkWait(n *node, a *action) {
	if a.kind == KindSleep && a.sleep == nil {
		d.fault(n.name, "Sleep has no function that says how long")
	}
	if a.kind == KindSignal && a.signal == nil {
		d.fault(n.name, "SignalOf has no function that names the signal")
	}
	if a.kind == KindSignal && !n.bounded && !n.forever {
		d.fault(n.name, "waits for a signal: for how long? Say Within, or Forever")
	}
	for _, name := range a.signals {
		if !validName(name, false) { // it is one token of a subject
			d.fault(n.name, "signal %q: not a name (%s)", name, nameGrammar)
		}
	}
}

// checkApproval checks an action that asks people.
func (d *Definition) checkApproval(n *node, a *action) {
	if a.approval == nil {
		d.fault(n.name, "ApproveOf has no function that makes the approval")
	}
	if a.static != nil {
		if err := a.static.Check(); err != nil {
			d.fault(n.name, "Approve: %s", err)
		}
		if !n.bounded && !n.forever && a.static.Expire == 0 {
			d.fault(n.name, "asks for an approval: for how long? Say Within, Forever or Approval.Expire")
		}
	}
	if a.tellTwice {
		d.fault(n.name, "has more than one Tell")
	}
	if a.tell != nil && a.tell.kind != KindCall {
		d.fault(n.name, "Tell that performs no effect")
	}
	if a.tell != nil && a.tell.keeps {
		d.fault(n.name, "Tell keeps the result of its effect, which is dropped: the Call's out is nil")
	}
	d.checkAction(n, a.tell)
}

// checkBound checks how long a state may take.
func (d *Definition) checkBound(n *node) {
	switch {
	case n.bounded && (n.action == nil || n.kind == KindRoll):
		d.fault(n.name, "Within in a state that waits for nothing")
	case n.bounded && n.forever:
		d.fault(n.name, "waits Forever, and Within a time")
	case n.boundTwice:
		d.fault(n.name, "has more than one Within")
	case n.bounded && n.within == nil:
		d.fault(n.name, "WithinOf has no function that says how long")
	case n.bound < 0 || n.bound > MaxWait:
		d.fault(n.name, "Within %s: it is 0 to %s", n.bound, MaxWait)
	}
	if n.forever && !n.listens() {
		d.fault(n.name, "Forever in a state that waits for no signal and no approval")
	}
}

// listens reports whether the state waits for a signal, or for people.
func (n *node) listens() bool {
	if n.action == nil || n.action.many == nil {
		return n.kind == KindSignal || n.kind == KindApprove
	}
	return slices.ContainsFunc(n.action.many.branches, func(b branch) bool { return b.kind() == KindSignal || b.kind() == KindApprove })
}

// tells are the actions by which the state tells approvers.
func (n *node) tells() []*action {
	if n.action == nil {
		return nil
	}
	all := []*action{n.action.tell}
	if m := n.action.many; m != nil {
		for _, b := range m.branches {
			if b.action != nil {
				all = append(all, b.action.tell)
			}
		}
	}
	return slices.DeleteFunc(all, func(a *action) bool { return a == nil })
}

// checkPaths checks what can be reached from where.
func (d *Definition) checkPaths(g graph) {
	if len(d.nodes) == 0 {
		return
	}
	first := d.nodes[0].name
	ends := slices.ContainsFunc(d.nodes, (*node).ends)
	for _, n := range d.nodes {
		if d.byName[n.name] != n {
			continue // declared twice, which has been said
		}
		if n.name != first && !g.reaches(first, n.name) {
			d.fault(n.name, "cannot be reached from %q", first)
		}
		if ends && !n.ends() && !d.canEnd(g, n) {
			d.fault(n.name, "is a dead end: no way leads from it to an end")
		}
	}
	for _, loop := range d.unbounded() {
		if ends && !d.canEnd(g, d.byName[loop[0]]) {
			continue // a dead end, which has been said
		}
		d.fault(loop[0], "the loop %s has no bound: a state in it needs Visits", strings.Join(append(loop, loop[0]), " → "))
	}
}

// canEnd reports whether an end can be reached. A target that does not exist
// is a fault of its own, so it is given the benefit of the doubt.
func (d *Definition) canEnd(g graph, n *node) bool {
	for _, m := range d.nodes {
		if m != n && !g.reaches(n.name, m.name) {
			continue
		}
		if m.ends() || m.next == "" {
			return true
		}
		for _, e := range m.exits() {
			if d.byName[e.To] == nil && d.nearest(e.To) == "" {
				return true
			}
		}
	}
	return false
}
