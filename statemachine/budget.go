package statemachine

import "maps"

// Budget bounds what a run may spend, of tokens or money say: used tells by the
// data how much that is. When an event is over and the run leaves a state that
// does something, having used more than most, it goes to the state over instead.
// It does so once: that state and those after it may use more.
func (m *Machine[T]) Budget(name string, used func(*T) int, most int, over string) {
	b := &budget{name: name, most: most, over: over}
	if used != nil {
		b.used = func(d any) int { return used(d.(*T)) }
	}
	m.budgets = append(m.budgets, b)
}

// budget is a Budget without the type of the data.
type budget struct {
	name string
	used func(data any) int
	most int
	over string
}

// Spent is how much of a budget a run has used.
type Spent struct {
	Used int  `json:"used"`
	Most int  `json:"most"`
	Over bool `json:"over,omitempty"` // the run has left a state for it: it is not asked about again
}

// overspent returns where the run goes because a budget is used up; "" if none
// is.
func (s *step) overspent() string {
	for _, b := range s.f.d.budgets {
		if used := b.used(s.data); used > b.most && !s.f.rec.Budgets[b.name].Over {
			s.f.rec.Budgets = with(s.f.rec.Budgets, b.name, Spent{Used: used, Most: b.most, Over: true})
			return b.over
		}
	}
	return ""
}

// spend notes how much of its budgets the run has used.
func (s *step) spend() {
	budgets := s.f.d.budgets
	if len(budgets) == 0 {
		return
	}
	spent := maps.Clone(s.f.rec.Budgets)
	if spent == nil {
		spent = make(map[string]Spent, len(budgets))
	}
	for _, b := range budgets {
		spent[b.name] = Spent{Used: b.used(s.data), Most: b.most, Over: spent[b.name].Over}
	}
	s.f.rec.Budgets = spent
}

// checkBudgets checks the budgets of the machine.
func (d *Definition) checkBudgets() {
	seen := map[string]bool{}
	for _, b := range d.budgets {
		switch {
		case !validName(b.name, false):
			d.fault("", "budget %q: not a name (%s)", b.name, nameGrammar)
		case seen[b.name]:
			d.fault("", "budget %q: declared twice", b.name)
		case b.used == nil:
			d.fault("", "budget %q: has no function that tells what is used", b.name)
		case b.most < 0:
			d.fault("", "budget %q: %d is not 0 or more", b.name, b.most)
		}
		if d.byName[b.over] == nil {
			d.fault("", "%s", d.unknownTarget(Exit{Kind: ExitBudget, To: b.over}))
		}
		seen[b.name] = true
	}
}

func writeSpent(a *appender, s *Spent) {
	a.b = append(a.b, '{')
	a.num("used", s.Used)
	a.num("most", s.Most)
	a.trueIf("over", s.Over)
	a.b = append(a.b, '}')
}

func readSpent(p *scan, s *Spent) {
	p.open('{')
	if p.field("used") {
		s.Used = p.int()
	}
	if p.field("most") {
		s.Most = p.int()
	}
	if p.field("over") {
		s.Over = p.isTrue()
	}
	p.end('}')
}
