package statemachine

import (
	"errors"
	"time"
)

// Definition is a compiled machine without its Go type: what a worker drives.
type Definition struct {
	Name    string
	Version int
	Hash    string // of the static graph: states, effects, exits

	nodes   []*node
	byName  map[string]*node
	indexes []index
	checks  []func(data any) error
	queries []query
	updates []update
	budgets []*budget
	make    func() any    // a new *T
	longest time.Duration // how long a run may take; 0: as long as it does
	logs    []logSpec
	faults  []error
}

// Machines is what a catalog is made of: a *Machine of any data type, or
// another catalog.
type Machines interface {
	// Definitions returns the machines in compiled form.
	Definitions() []*Definition
}

// StateKind tells what a state does.
type StateKind string

// The kinds of states.
const (
	KindCall    StateKind = "call"    // performs an effect
	KindChild   StateKind = "child"   // waits for the end of another run
	KindSleep   StateKind = "sleep"   // waits for a time
	KindSignal  StateKind = "signal"  // waits for a signal
	KindEach    StateKind = "each"    // performs an effect for each of many items
	KindAll     StateKind = "all"     // does several actions, and waits for all
	KindFirst   StateKind = "first"   // … for the first of them
	KindApprove StateKind = "approve" // waits for what people decide
	KindDecide  StateKind = "decide"  // chooses where to go
	KindRoll    StateKind = "roll"    // begins the next epoch
	KindUnwind  StateKind = "unwind"  // undoes what was done
	KindSucceed StateKind = "succeed" // ends the run well
	KindFail    StateKind = "fail"    // ends the run as failed
)

// StateInfo describes a state for people and diagrams.
type StateInfo struct {
	Name     string       `json:"name"`
	Kind     StateKind    `json:"kind"`
	Effects  []string     `json:"effects,omitempty"`
	Machine  string       `json:"machine,omitempty"`  // child: of the run it waits for, if that is declared
	Signals  []string     `json:"signals,omitempty"`  // the one it waits for, if that is declared
	Tells    []string     `json:"tells,omitempty"`    // effects of which one tells approvers
	Undo     []string     `json:"undo,omitempty"`     // effects of which one takes back what the state did
	Limit    int          `json:"limit,omitempty"`    // each: how many items at once
	Need     int          `json:"need,omitempty"`     // first: how many branches have to be done
	Branches []BranchInfo `json:"branches,omitempty"` // all, first
	Class    string       `json:"class,omitempty"`    // of a failing end
	Visits   int          `json:"visits,omitempty"`   // how often it may be entered
	Exits    []Exit       `json:"exits,omitempty"`    // in the order they are tried
}

// BranchInfo describes a branch of a state.
type BranchInfo struct {
	Name    string    `json:"name"`
	Kind    StateKind `json:"kind"`
	Effects []string  `json:"effects,omitempty"`
	Machine string    `json:"machine,omitempty"` // of the run it waits for, if that is declared
	Signals []string  `json:"signals,omitempty"`
}

// Exit is a way out of a state.
type Exit struct {
	Kind  ExitKind `json:"kind"`
	Label string   `json:"label,omitempty"` // name of the predicate, or class of the error
	To    string   `json:"to"`
}

// ExitKind tells when an exit is taken.
type ExitKind string

// The kinds of exits.
const (
	ExitWhen   ExitKind = "when"   // its predicate holds
	ExitThen   ExitKind = "then"   // no predicate does
	ExitCatch  ExitKind = "catch"  // the action was given up
	ExitWithin ExitKind = "within" // the state took too long
	ExitVisits ExitKind = "visits" // the state was entered too often
	ExitBudget ExitKind = "budget" // the run has used more than it may; taken once for each
)

// Check returns the faults of the machine by itself, joined; that its effects
// have handlers is checked by [Catalog.Check], which reports these as well.
func (d *Definition) Check() error { return errors.Join(d.faults...) }

// States describes the states in the order they are declared.
func (d *Definition) States() []StateInfo {
	infos := make([]StateInfo, 0, len(d.nodes))
	for _, n := range d.nodes {
		info := StateInfo{Name: n.name, Kind: n.kind, Class: n.class, Visits: n.limit, Exits: n.exits()}
		if n.action != nil {
			info.Effects = append(info.Effects, n.action.effects...)
			info.Signals = append(info.Signals, n.action.signals...)
			info.describe(n.action.many)
			info.Machine = n.action.machine()
			for _, a := range n.tells() {
				info.Tells = append(info.Tells, a.effects...)
			}
		}
		if n.undo != nil {
			info.Undo = append(info.Undo, n.undo.effects...)
		}
		infos = append(infos, info)
	}
	return infos
}

// describe adds what is done at once.
func (info *StateInfo) describe(m *many) {
	if m == nil {
		return
	}
	info.Need = m.need
	if m.branches == nil {
		info.Limit = m.limit
	}
	for _, b := range m.branches {
		if b.action != nil {
			info.Branches = append(info.Branches, BranchInfo{Name: b.name, Kind: b.action.kind, Effects: b.action.effects, Machine: b.action.machine(), Signals: b.action.signals})
		}
	}
}

// exits returns the ways out of the state.
func (n *node) exits() []Exit {
	var exits []Exit
	for _, w := range n.whens {
		exits = append(exits, Exit{Kind: ExitWhen, Label: w.label, To: w.to})
	}
	if n.next != "" {
		exits = append(exits, Exit{Kind: ExitThen, To: n.next})
	}
	for _, c := range n.catches {
		exits = append(exits, Exit{Kind: ExitCatch, Label: c.class, To: c.to})
	}
	if n.bounded {
		exits = append(exits, Exit{Kind: ExitWithin, To: n.late})
	}
	if n.limited {
		exits = append(exits, Exit{Kind: ExitVisits, To: n.over})
	}
	for _, b := range n.budgets {
		exits = append(exits, Exit{Kind: ExitBudget, Label: b.name, To: b.over})
	}
	return exits
}
