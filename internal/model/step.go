package model

import (
	"strconv"
	"strings"
)

// Step says in words how one state leads to the next. The text is built only
// for traces: {w}, {a} and {b} are numbers, {m} and {e} show a, or b, or a and b, as a
// set of messages or effects, {p} shows a as events.
type Step struct {
	text   string
	worker uint8
	a, b   uint8
}

// about is a step of worker i that shows messages.
func about(text string, i int, x messages) Step {
	return Step{text, uint8(i), uint8(x), uint8(x >> 8)}
}

func (s Step) String() string {
	num := func(v uint8) string { return strconv.Itoa(int(v)) }
	return strings.NewReplacer(
		"{w}", num(s.worker), "{a}", num(s.a), "{b}", num(s.b),
		"{m}", (messages(s.a) | messages(s.b)<<8).String(), "{e}", effects(s.b).String(), "{p}", planText(s.b),
	).Replace(s.text)
}

func (e effects) String() string {
	var list []string
	for k := range maxEffects {
		if e.has(k) {
			list = append(list, "e"+strconv.Itoa(k+1))
		}
	}
	return "{" + strings.Join(list, " ") + "}"
}

// code packs the kinds and effects of a plan's events into one byte.
func (p *plan) code() uint8 {
	c := uint8(0)
	for j, e := range p.all() {
		one := uint8(e.kind)*2 + 1
		if e.kind == evResult {
			one = 13 + e.effect
		} else if e.kind == evResume {
			one = uint8(evResult)*2 + 1 // which stands for no result
		} else if e.queued {
			one++
		}
		c |= one << (4 * j)
	}
	return c
}

func planText(c uint8) string {
	names := [...]string{"", "start", "start, asks queued", "signal", "signal, asks queued", "resume", "", "failure of e1", "failure of e1, asks queued",
		"due e1", "", "inline becomes queued", "", "result of e1", "result of e2", "result of e3"}
	text := names[c&15]
	if c>>4 != 0 {
		text += " + " + names[c>>4]
	}
	return text
}
