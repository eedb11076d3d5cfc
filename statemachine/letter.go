package statemachine

import (
	"regexp"
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
		Redrives: p.Redrives,
		Tenant:   f.rec.Tenant,
	}
}

// LetterTry is which try of its effect a letter is about, by the letter's id;
// 0 if that is the id of no effect's letter.
func LetterTry(effect, id string) int {
	rest, ok := strings.CutPrefix(id, effect+":")
	if !ok || effect == "" {
		return 0
	}
	try, err := strconv.Atoi(rest)
	if err != nil || try < 1 {
		return 0
	}
	return try
}

// FaultPrint is the fingerprint of a fault: what fails for the same reason has
// the same, whichever run, worker or build it happened to. Of the message its
// first line counts (what follows is a stack), and not what differs from one
// time to the next: quoted values, numbers, ids, addresses.
func FaultPrint(machine, state, effect, class, message string) string {
	return digest([]byte(machine), []byte(state), []byte(effect), []byte(class), []byte(pattern(message)))
}

var (
	quotedRE   = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|\\B'[^']*'")
	wordRE     = regexp.MustCompile(`[\p{L}\p{N}_.:+@/=%&?#~\[\]-]+`)
	variableRE = regexp.MustCompile(`\p{N}|@|://|^[0-9a-fA-F]{8,}[.:]*$`)
	seriesRE   = regexp.MustCompile(`…(?:[\s,;]+…)+`)
)

// pattern is what messages about the same fault have in common.
func pattern(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = quotedRE.ReplaceAllString(line, "…")
	line = wordRE.ReplaceAllStringFunc(line, func(word string) string {
		if variableRE.MatchString(word) {
			return "…"
		}
		return word
	})
	line = strings.Join(strings.Fields(line), " ")
	return seriesRE.ReplaceAllString(line, "…")
}
