package statemachine

import (
	"encoding/json"
	"slices"
	"time"
)

// Reply is what a run answered to a command that asks for an answer: kept for a
// while, so that who asks again is told the same.
type Reply struct {
	ID    string          `json:"id"` // of the event
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value,omitempty"` // at most MaxReply
	Cause *Cause          `json:"cause,omitempty"` // why it was refused
}

// Reply returns what the run answered to an event; nil if it gave no answer, or
// keeps it no longer.
func (r *Record) Reply(event string) *Reply {
	for i := range r.Replies {
		if r.Replies[i].ID == event {
			return &r.Replies[i]
		}
	}
	return nil
}

// reply notes an answer; the oldest go.
func (f *Fold) reply(e *Event, value json.RawMessage, c *Cause) {
	all := append(slices.Clone(f.rec.Replies), Reply{ID: e.ID, At: f.clock, Value: value, Cause: c})
	for len(all) > 1 && (len(all) > MaxReplies || repliesSize(all) > maxRepliesSize) {
		all = all[1:]
	}
	f.rec.Replies = all
	f.answered++
	f.answeredSize += repliesSize(all[len(all)-1:])
}

// answersAll reports whether the record has no room for another answer beside
// those that it gives itself: each of these stands in it, whoever looks for it.
func (f *Fold) answersAll() bool {
	return f.answered >= MaxReplies || f.answeredSize > maxRepliesSize-MaxReply-MaxMessage-replyFrame-2*MaxID
}

// refused notes that a command is not carried out: in the record of the event,
// and for who asks again.
func (f *Fold) refused(e *Event, c *Cause) {
	c = c.trimmed()
	if c.State == "" {
		c.State = f.State()
	}
	e.Cause = c
	f.reply(e, nil, c)
}

// asked carries out a command that asks for an answer. What the machine cannot
// do is refused, and changes nothing. The only error is a *BlobsError.
func (f *Fold) asked(e *Event, do func() error) error {
	before := f.post
	err := do()
	if err == nil {
		err = f.limits()
	}
	if isMissing(err) {
		return err
	}
	if err != nil {
		f.post, f.data = before, nil
		f.refused(e, &Cause{Class: ClassOf(err), Message: err.Error()})
	}
	return nil
}

// repliesSize is the size of replies as the limit counts it.
func repliesSize(replies []Reply) int {
	n := 0
	for i := range replies {
		r := &replies[i]
		n += replyFrame + len(r.ID) + len(r.Value)
		if r.Cause != nil {
			n += len(r.Cause.Message)
		}
	}
	return n
}

func writeReply(a *appender, r *Reply) {
	a.b = append(a.b, '{')
	a.text("id", r.ID)
	a.time("at", r.At)
	a.rawIf("value", r.Value)
	writeCause(a, "cause", r.Cause)
	a.b = append(a.b, '}')
}

func readReply(p *scan, r *Reply) {
	p.open('{')
	if p.field("id") {
		r.ID = p.str()
	}
	if p.field("at") {
		r.At = p.time()
	}
	if p.field("value") {
		r.Value = p.raw()
	}
	if p.field("cause") {
		r.Cause = readCause(p)
	}
	p.end('}')
}
