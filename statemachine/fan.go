package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Fan is how far a state has come that does many at once: the items of an
// [Each], or the branches of an [All], an [Any] or a [FirstN]. Items are
// counted from 1. What is under way of them is in Pending and Waits, which name
// the item.
type Fan struct {
	Size   int       `json:"size"`             // how many there are
	Limit  int       `json:"limit,omitempty"`  // how many at once, if the data says so; 0: as the machine says
	Asked  int       `json:"asked"`            // that were begun: the first
	Taken  int       `json:"taken"`            // whose outcomes the data has: the first; of a FirstN the number of successes
	Failed int       `json:"failed,omitempty"` // how many were given up, and the state goes on
	Held   []FanItem `json:"held,omitempty"`   // outcomes whose turn has not come, in the order of the items
}

// FanItem is the outcome of an item.
type FanItem struct {
	Item  int             `json:"item"`
	Body  json.RawMessage `json:"body,omitempty"`  // result or payload; by reference if it is large for one of so many
	Cause *Cause          `json:"cause,omitempty"` // why it was given up
}

// many is what an action does more than once at a time.
type many struct {
	limit     int                // how many at once
	need      int                // branches: how many have to succeed; 0: all
	tolerate  int                // items: how many may be given up; -1: all
	tolerates bool               // Tolerate was called
	limitOf   func(data any) int // … by the data; nil: limit
	branches  []branch           // nil for items
	children  bool               // items are runs

	// open counts the items or branches, and returns what the i-th does.
	open func(data any) (int, func(i int) *action)
}

// maxHanded is how many outcomes of items an event gives to the data, so that
// no record has a whole window of what they add and of what is asked next.
const maxHanded = 8

// atOnce is how many at once.
func (m *many) atOnce(fan *Fan) int {
	if fan != nil && fan.Limit > 0 {
		return fan.Limit
	}
	return max(m.limit, 1)
}

// fan returns the root's fan, free to be changed.
func (s *step) fan() *Fan {
	fr := s.frame()
	c := *fr.Fan
	fr.Fan = &c
	return &c
}

// spread begins a state that does many at once. It returns where the run goes,
// or reports that it waits.
func (s *step) spread(n *node) (to string, waits bool, err error) {
	size, one := n.action.many.open(s.data)
	if size > MaxItems {
		return "", false, &LimitError{What: "items", Size: size, Max: MaxItems, Unit: "items"}
	}
	fan := &Fan{Size: size}
	if m := n.action.many; m.limitOf != nil {
		if fan.Limit = m.limitOf(s.data); fan.Limit < 1 || fan.Limit > MaxAtOnce {
			return "", false, s.fault(ClassInvalidData, fmt.Errorf("Each of %d at once: it is 1 to %d", fan.Limit, MaxAtOnce))
		}
	}
	s.frame().Fan = fan
	s.f.most = min(s.f.most, n.inline(fan))
	return s.spreadOn(n, one)
}

// proceed takes the outcome of the step's item, and goes on.
func (s *step) proceed(n *node, body json.RawMessage, c *Cause) error {
	fan := s.f.rec.Frames[0].Fan
	if n.action.many == nil || fan == nil {
		return s.fault(ClassUnknownState, fmt.Errorf("the machine has no items or branches in this state"))
	}
	size, one := n.action.many.open(s.data)
	if size != fan.Size {
		return s.fault(ClassInvalidData, fmt.Errorf("there are %d items where there were %d: they stay the same while the state lasts", size, fan.Size))
	}
	if err := s.note(n, one, body, c); err != nil {
		return err
	}
	to, waits, err := s.spreadOn(n, one)
	if err != nil || waits {
		return err
	}
	return s.enter(to)
}

// spreadOn takes the outcomes whose turn has come and begins what may be begun,
// until the state waits or is done.
func (s *step) spreadOn(n *node, one func(int) *action) (to string, waits bool, err error) {
	m := n.action.many
	for {
		lost, err := s.handOver(n, one)
		switch fan := s.f.rec.Frames[0].Fan; {
		case err != nil:
			return "", false, err
		case lost != nil:
			s.f.abandon()
			s.caught(*lost)
			return n.caught(lost.Class), false, nil
		case m.need > 0 && fan.Taken >= m.need, m.need == 0 && fan.Taken == fan.Size:
			s.f.abandon() // of a FirstN
			to, err := s.choose(n)
			return to, false, err
		case s.mayBegin(m, fan):
			if err := s.beginItem(n, one); err != nil {
				return "", false, err
			}
		case s.f.rec.UnderWay() > 0:
			return "", true, nil
		case s.handed == 0:
			return "", false, s.fault(ClassUnknownState, errors.New("nothing is under way, and the state is not done"))
		default:
			s.handed = 0 // no event is sure to come that gives the data the rest
		}
	}
}

// mayBegin reports whether one more may be begun: not if an outcome that is
// held ends the state, nor if what is under way fills the record.
func (s *step) mayBegin(m *many, fan *Fan) bool {
	under, limit := s.f.rec.UnderWay(), m.atOnce(fan)
	switch {
	case fan.Asked == fan.Size || under >= limit:
		return false
	case m.branches != nil:
		return true
	case fan.Asked-fan.Taken >= limit+limit/2 || m.tolerate >= 0 && fan.failed() > m.tolerate:
		return false
	}
	return under == 0 || workSize(&s.f.rec) < MaxWork/2
}

// UnderWay is how many items or branches of the state have been begun and have
// no outcome yet.
func (r *Record) UnderWay() int {
	n := 0
	for i := range r.Pending {
		if r.Pending[i].Item > 0 {
			n++
		}
	}
	for i := range r.Waits {
		if r.Waits[i].Item > 0 {
			n++
		}
	}
	return n
}

// failed is how many were given up so far.
func (fan *Fan) failed() int {
	n := fan.Failed
	for i := range fan.Held {
		if fan.Held[i].Cause != nil {
			n++
		}
	}
	return n
}

// beginItem begins the next.
func (s *step) beginItem(n *node, one func(int) *action) error {
	fan := s.fan()
	fan.Asked++
	s.item = fan.Asked
	a := one(s.item - 1)
	if a.kind == KindChild {
		p, err := s.requestChild(a)
		if err == nil {
			p.Item = s.item
			s.pend(p, false)
		}
		return err
	}
	if a.kind != KindCall {
		body, waits, err := s.wait(a)
		if err != nil || waits {
			return err
		}
		return s.note(n, one, body, nil)
	}
	p, queued, err := s.request(a)
	if isUnknownEffect(err) {
		c := Cause{Class: ClassUnknownEffect, Message: trim(err.Error(), MaxMessage), State: n.name}
		if !s.f.bears(n, c.Class) {
			return err
		}
		return s.note(n, one, nil, &c)
	}
	if err != nil {
		return err
	}
	p.Item = s.item
	s.pend(p, queued)
	return nil
}

// bears reports whether a state of many goes on when one more is given up, or
// leaves through a Catch.
func (f *Fold) bears(n *node, class string) bool {
	m, fan := n.action.many, f.rec.Frames[0].Fan
	switch {
	case fan == nil:
		return false
	case n.caught(class) != "" && n.kind != KindFirst:
		return true
	case n.kind == KindEach:
		return m.tolerate < 0 || fan.failed() < m.tolerate
	case n.kind == KindFirst:
		return n.caught(class) != "" || fan.Size-fan.Failed-1 >= m.need
	}
	return false
}

// note keeps the outcome of the step's item until its turn comes.
func (s *step) note(n *node, one func(int) *action, body json.RawMessage, c *Cause) error {
	fan := s.fan()
	if n.kind == KindFirst && c != nil && fan.Size-fan.Failed-1 >= n.action.many.need {
		fan.Failed++
		return nil
	}
	h := FanItem{Item: s.item, Cause: c}
	if c == nil {
		a := one(s.item - 1)
		if a.fits != nil { // or it would be found out when another's turn comes, too
			if err := a.fits(payload(body)); err != nil {
				return s.fault(ClassInvalidResult, err)
			}
		}
		var err error
		if h.Body, err = s.f.refer(payload(body)); err != nil {
			return err
		}
	}
	at, _ := slices.BinarySearchFunc(fan.Held, s.item, func(h FanItem, item int) int { return h.Item - item })
	fan.Held = slices.Insert(slices.Clone(fan.Held), at, h)
	return nil
}

// handOver gives the data the outcomes whose turn has come: of items those
// that follow on what it has; of branches, if all are needed, all at once; else
// each. It returns the failure that a Catch routes.
func (s *step) handOver(n *node, one func(int) *action) (lost *Cause, err error) {
	turn, err := s.turn(n)
	if err != nil || len(turn) == 0 {
		return nil, err
	}
	m, fan := n.action.many, s.fan()
	for _, h := range turn {
		a := one(h.Item - 1)
		switch {
		case h.Cause == nil:
			if err := a.take(s.data, h.Body); err != nil {
				return nil, s.fault(ClassInvalidResult, fmt.Errorf("%d of %d: %w", h.Item, fan.Size, err))
			}
		case m.tolerate >= 0 && fan.Failed >= m.tolerate && n.caught(h.Cause.Class) != "":
			return h.Cause, nil
		case a.lost == nil:
			return nil, s.fault(ClassUnknownState, fmt.Errorf("the machine has no Catch of %q in this state", h.Cause.Class))
		default:
			if err := a.lost(s.data, h.Cause); err != nil {
				return nil, s.fault(ClassInvalidResult, fmt.Errorf("%d of %d: %w", h.Item, fan.Size, err))
			}
			fan.Failed++
		}
		fan.Taken++
		s.handed++
	}
	fan.Held = slices.DeleteFunc(slices.Clone(fan.Held), func(h FanItem) bool {
		return slices.ContainsFunc(turn, func(t FanItem) bool { return t.Item == h.Item })
	})
	return nil, nil
}

// turn returns the outcomes whose turn has come, with their bodies in full. As
// long as another event is sure to come, some may wait for that.
func (s *step) turn(n *node) ([]FanItem, error) {
	fan := s.f.rec.Frames[0].Fan
	most := maxHanded - s.handed
	var turn []FanItem
	for _, h := range fan.Held {
		if n.kind == KindEach && (h.Item != fan.Taken+len(turn)+1 || len(turn) >= most) {
			break
		}
		if n.kind == KindAll && len(fan.Held) < fan.Size && h.Cause == nil {
			continue // the others first; but a failure ends it
		}
		turn = append(turn, h)
	}
	return turn, s.f.whole(turn)
}

// heard takes what came of the wait w, and goes on.
func (s *step) heard(n *node, w Wait, body json.RawMessage) error {
	if w.Item > 0 {
		s.f.unwait(w.ID)
		s.item = w.Item
		return s.proceed(n, body, nil)
	}
	if err := s.hear(n, body); err != nil {
		return err
	}
	return s.leave(n)
}

// unwait ends one wait of a state that goes on.
func (f *Fold) unwait(id string) {
	at := f.rec.wait(id)
	parked := f.rec.Waits[at].Cause != nil
	f.retract(id)
	f.rec.Waits = slices.Delete(slices.Clone(f.rec.Waits), at, at+1)
	if parked {
		f.rest()
	}
}
