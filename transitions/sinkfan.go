package transitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// sinkItem is one of the effects of a step with fan.
type sinkItem struct {
	of int // which of Fan
	n  int // from 1
}

// defaultAtOnce is how many effects of a step with fan are under way at once.
const defaultAtOnce = 8

// checkFan says what is wrong with a step that performs effects at once.
func (p sinkStep) checkFan(effects []string, version int) error {
	switch {
	case p.Fan == nil && p.Limit != 0:
		return errors.New("limit is of a step with fan")
	case p.Fan == nil:
		return nil
	case version < 3:
		return fmt.Errorf("version %d of the machine performs one effect at a time", version)
	case len(p.Fan) == 0:
		return errors.New("fan has no effects")
	case p.Limit < 0 || p.Limit > statemachine.MaxAtOnce:
		return fmt.Errorf("limit is %d, not 1 to %d", p.Limit, statemachine.MaxAtOnce)
	case p.Repeat < 0 || p.Repeat > maxSinkSteps || p.effects() > statemachine.MaxItems:
		return fmt.Errorf("%d effects, repeated %d times: a step with fan has at most %d", len(p.Fan), p.Repeat, statemachine.MaxItems)
	}
	for i, one := range p.Fan {
		err := one.check(effects, version)
		if err == nil && (one.Do == "" || one.Repeat != 0 || one.Catch || one.Undo != nil) {
			err = errors.New("it has do, and no repeat, catch or undo")
		}
		if err != nil {
			return fmt.Errorf("fan[%d]: %w", i, err)
		}
	}
	return nil
}

// effects is how many effects the step performs.
func (p sinkStep) effects() int { return max(len(p.Fan), 1) * p.times() }

func (s *sinkData) fanning() bool { return s.step().Fan != nil }

func (s *sinkData) items() []sinkItem {
	step := s.step()
	items := make([]sinkItem, step.effects())
	for i := range items {
		items[i] = sinkItem{of: i % len(step.Fan), n: i + 1}
	}
	return items
}

func (s *sinkData) atOnce() int {
	if n := s.step().Limit; n > 0 {
		return n
	}
	return defaultAtOnce
}

// numbered puts the number of an item where the script has "{item}".
func (i sinkItem) numbered(text string) string {
	return strings.ReplaceAll(text, "{item}", strconv.Itoa(i.n))
}

func (s *sinkData) item(i sinkItem) sinkStep { return s.step().Fan[i.of] }

func (s *sinkData) pickItem(i sinkItem) (effect string, input json.RawMessage) {
	one := s.item(i)
	if len(one.Input) == 0 {
		return one.Do, json.RawMessage(`{}`)
	}
	return one.Do, json.RawMessage(i.numbered(string(one.Input)))
}

func (s *sinkData) itemKey(i sinkItem) string { return i.numbered(s.item(i).Key) }

func (s *sinkData) itemFlow(i sinkItem) string { return s.item(i).flowKey() }

func (s *sinkData) itemQueued(i sinkItem) bool { return s.item(i).Place == "queued" }

// itemDone takes a result; of an effect that was given up, why.
func (s *sinkData) itemDone(_ sinkItem, r statemachine.Result[json.RawMessage]) {
	if s.Done++; s.Done >= s.step().effects() {
		s.At, s.Done = s.At+1, 0
	}
	if r.OK() {
		s.Results.Append(r.Value)
		return
	}
	why, _ := json.Marshal(map[string]any{"error": map[string]string{"class": r.Cause.Class, "message": r.Cause.Message}}) // of strings: it cannot fail
	s.Results.Append(why)
}
