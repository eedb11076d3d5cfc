package model

import "strings"

// messages is a set of wake-ups of the run. Each stands for everything the
// broker may hold under that identity, so a redelivery or a second copy is
// the same bit.
type messages uint16

const (
	msgStart        messages = 1 << iota // Ma
	msgStartAgain                        // Ma', the same start event under another message id
	msgSignal                            // Mb
	msgEffect1                           // X(e1), first attempt
	msgEffect2                           // X(e2)
	msgEffect3                           // X(e3)
	msgDue                               // T(e1), fired by the schedule of the failed first attempt
	msgEffect1Next                       // X(e1), second attempt
	msgResume                            // Mc, sent by who has seen that the run is paused
	msgEffect1Again                      // X(e1) of the resume
	msgEffect2Again                      // X(e2) of the resume
	noMessages      messages = 0
)

// maxEffects is the number of effects a run may ask for: e1, e2 and e3.
const maxEffects = 3

// retried is the effect whose attempts may fail; the others always succeed.
const retried = 0

// maxAttempts is how often the retried effect is tried before its run parks.
const maxAttempts = 2

// effectMessages returns the messages whose wake id is effect k.
func effectMessages(k int) messages {
	switch k {
	case retried:
		return msgEffect1 | msgEffect1Next | msgEffect1Again
	case 1:
		return msgEffect2 | msgEffect2Again
	}
	return msgEffect1 << k
}

// asking returns the message which asks for queued effect k.
func (r *record) asking(k int) messages {
	if r.again.has(k) {
		return msgEffect1Again << k
	}
	return effectMessage(k, r.failures)
}

// effectMessage returns the message which asks for effect k after it has
// failed that many times.
func effectMessage(k int, failures uint8) messages {
	if k == retried && failures > 0 {
		return msgEffect1Next
	}
	return msgEffect1 << k
}

// asksFor returns the effect a message asks for, and false for the others.
func (m messages) asksFor() (int, bool) {
	switch m {
	case msgEffect1, msgEffect1Next, msgEffect1Again:
		return 0, true
	case msgEffect2, msgEffect2Again:
		return 1, true
	case msgEffect3:
		return 2, true
	}
	return 0, false
}

// each calls yield for every single message of the set, lowest first.
func (m messages) each(yield func(messages) bool) {
	for ; m != 0; m &= m - 1 {
		if !yield(m & -m) {
			return
		}
	}
}

func (m messages) String() string {
	names := [...]string{"Ma", "Ma'", "Mb", "X1", "X2", "X3", "T1", "X1(2)", "Mc", "X1(r)", "X2(r)"}
	var list []string
	for i, name := range names {
		if m>>i&1 != 0 {
			list = append(list, name)
		}
	}
	return "{" + strings.Join(list, " ") + "}"
}

// wake names the event or effect whose message resumes an inline effect. Ids
// of events and of effects are two name spaces.
type wake uint8

const (
	wakeStart wake = iota
	wakeSignal
	wakeEffect // wakeEffect+k is effect k
)

// carriers returns the messages which carry the wake id.
func (w wake) carriers(flaw Flaw) messages {
	switch w {
	case wakeStart:
		if flaw == WakeBySequence {
			return msgStart
		}
		return msgStart | msgStartAgain
	case wakeSignal:
		return msgSignal
	}
	return effectMessages(int(w - wakeEffect))
}
