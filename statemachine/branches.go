package statemachine

import "slices"

// BranchAction is a named action among several that a state does at once.
type BranchAction[T any] struct {
	name string
	a    *action
}

// Branch gives an action a name, as a branch of [All], [Any] or [FirstN].
func Branch[T any](name string, a Action[T]) BranchAction[T] {
	b := BranchAction[T]{name: name}
	if a != nil {
		b.a = a.erase(nil)
	}
	return b
}

// All does several actions at once, and is done when all of them are. What
// they came to is put into the data then, in the order in which they are
// written: all of it or, if a branch fails and a Catch routes that, or the state
// takes too long, nothing.
func All[T any](branches ...BranchAction[T]) Action[T] { return branching(KindAll, 0, branches) }

// Any does several actions at once, and is done when one of them is.
func Any[T any](branches ...BranchAction[T]) Action[T] { return branching(KindFirst, 1, branches) }

// FirstN does several actions at once, and is done when n of them are: what
// each of those came to is put into the data when it does. The others are
// abandoned: nobody can say whether their effects are under way, and what comes of
// them is dropped. A branch that is given up is one that does not count, as long
// as there are enough others.
func FirstN[T any](n int, branches ...BranchAction[T]) Action[T] {
	return branching(KindFirst, n, branches)
}

func branching[T any](kind StateKind, need int, branches []BranchAction[T]) Action[T] {
	m := &many{need: need, limit: len(branches)}
	a := &action{kind: kind, many: m}
	for _, b := range branches {
		m.branches = append(m.branches, branch{name: b.name, action: b.a})
		if b.a != nil {
			a.effects = append(a.effects, b.a.effects...)
			a.signals = append(a.signals, b.a.signals...)
			a.machines = append(a.machines, b.a.machines...)
			a.open = a.open || b.a.open
		}
	}
	m.open = func(any) (int, func(int) *action) {
		return len(m.branches), func(i int) *action { return m.branches[i].action }
	}
	return waiting[T]{a}
}

// branch is a BranchAction without the type of the data.
type branch struct {
	name   string
	action *action
}

// kind is the kind of its action.
func (b branch) kind() StateKind {
	if b.action == nil {
		return ""
	}
	return b.action.kind
}

// checkMany checks an action that does many at once.
func (d *Definition) checkMany(n *node, a *action) {
	m := a.many
	if n.kind == KindEach {
		switch {
		case m.open == nil && m.children:
			d.fault(n.name, "Each has no function that gives the items, or none that picks a machine")
		case m.open == nil && len(a.effects) == 0:
			d.fault(n.name, "EachOf has no tools")
		case m.open == nil:
			d.fault(n.name, "Each has no function that gives the items, or none that picks an effect")
		case m.tolerates && m.tolerate < 0:
			d.fault(n.name, "Tolerate of %d items: it is 0 or more", m.tolerate)
		}
		switch {
		case m.limit < 1:
			d.fault(n.name, "Each of %d at once: it is 1 to %d", m.limit, MaxAtOnce)
		case m.limit > MaxAtOnce:
			d.fault(n.name, "Each of %d at once: it is 1 to %d; for more, EachChild has a run for each part of the items", m.limit, MaxAtOnce)
		}
		d.checkMachines(n, a)
		return
	}
	if len(m.branches) < 1 || len(m.branches) > MaxAtOnce {
		d.fault(n.name, "has %d branches, it may have 1 to %d", len(m.branches), MaxAtOnce)
	} else if n.kind == KindFirst && (m.need < 1 || m.need > len(m.branches)) {
		d.fault(n.name, "is done when %d of %d branches are: it is 1 to all of them", m.need, len(m.branches))
	}
	seen := map[string]bool{}
	for _, b := range m.branches {
		switch {
		case !validName(b.name, false):
			d.fault(n.name, "branch %q: not a name (%s)", b.name, nameGrammar)
		case seen[b.name]:
			d.fault(n.name, "branch %q: declared twice", b.name)
		case b.action == nil:
			d.fault(n.name, "branch %q: has no action", b.name)
		case b.action.kind == KindRoll:
			d.fault(n.name, "branch %q: rolls; that is for a state of its own", b.name)
		case b.action.many != nil:
			d.fault(n.name, "branch %q: does many at once; that is for a state of its own, or for a run of its own", b.name)
		default:
			d.checkAction(n, b.action)
		}
		seen[b.name] = true
	}
}

// listeners returns what of the state takes payloads of a declared signal, and
// not all of them.
func (n *node) listeners(signal string) []*action {
	return slices.DeleteFunc(n.actions(), func(a *action) bool { return a.fits == nil || !slices.Contains(a.signals, signal) })
}

// actions are what the state does: its action, or those of its branches.
func (n *node) actions() []*action {
	if n.action == nil {
		return nil
	}
	all := []*action{n.action}
	if m := n.action.many; m != nil {
		all = nil
		for _, b := range m.branches {
			if b.action != nil {
				all = append(all, b.action)
			}
		}
	}
	return all
}
