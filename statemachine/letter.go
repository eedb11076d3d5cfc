package statemachine

import (
	"strconv"
	"strings"
)

// letter is the dead letter of an effect that is given up.
func (f *Fold) letter(p *Pending, c Cause) Letter {
	return Letter{
		ID:       p.ID + ":" + strconv.Itoa(p.Try),
		Run:      f.rec.Run,
		Machine:  f.rec.Machine,
		State:    c.State,
		Effect:   p.Effect,
		EffectID: p.ID,
		Key:      p.IdempotencyKey(),
		Input:    p.Input,
		Class:    c.Class,
		Cause:    c.Message,
		Attempts: p.Attempt,
		Print:    FaultPrint(f.rec.Machine, c.State, p.Effect, c.Class, c.Message),
		First:    *p.First,
		Last:     f.clock,
		Build:    f.env.Build,
	}
}

// FaultPrint is the fingerprint of a fault: what fails for the same reason has
// the same, whatever numbers and ids its message contains.
func FaultPrint(machine, state, effect, class, message string) string {
	message = strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, message)
	return digest([]byte(machine), []byte(state), []byte(effect), []byte(class), []byte(message))
}
