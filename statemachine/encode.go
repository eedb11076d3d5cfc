package statemachine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// appender writes a record as encoding/json would, in a tenth of the time: a
// worker does little else. Tests compare the two.
type appender struct {
	b   []byte
	err error
}

// name begins a field.
func (a *appender) name(name string) {
	if c := a.b[len(a.b)-1]; c != '{' {
		a.b = append(a.b, ',')
	}
	a.b = append(a.b, '"')
	a.b = append(a.b, name...)
	a.b = append(a.b, '"', ':')
}

func (a *appender) text(name, s string) {
	a.name(name)
	a.str(s)
}

func (a *appender) textIf(name, s string) {
	if s != "" {
		a.text(name, s)
	}
}

func (a *appender) num(name string, n int) {
	a.name(name)
	a.b = strconv.AppendInt(a.b, int64(n), 10)
}

func (a *appender) numIf(name string, n int) {
	if n != 0 {
		a.num(name, n)
	}
}

func (a *appender) seq(name string, n uint64) {
	a.name(name)
	a.b = strconv.AppendUint(a.b, n, 10)
}

func (a *appender) seqIf(name string, n uint64) {
	if n != 0 {
		a.seq(name, n)
	}
}

func (a *appender) time(name string, t time.Time) {
	a.name(name)
	a.b = append(a.b, '"')
	b, err := t.AppendText(a.b)
	if err != nil {
		a.err = err
		return
	}
	a.b = append(b, '"')
}

func (a *appender) timeIf(name string, t *time.Time) {
	if t != nil {
		a.time(name, *t)
	}
}

func (a *appender) durationIf(name string, d Duration) {
	if d != 0 {
		a.text(name, time.Duration(d).String())
	}
}

func (a *appender) trueIf(name string, v bool) {
	if v {
		a.name(name)
		a.b = append(a.b, "true"...)
	}
}

func (a *appender) raw(name string, v json.RawMessage) {
	a.name(name)
	a.value(v)
}

func (a *appender) rawIf(name string, v json.RawMessage) {
	if len(v) > 0 {
		a.raw(name, v)
	}
}

// value writes a value that is JSON already.
func (a *appender) value(v json.RawMessage) {
	if len(v) == 0 {
		v = rawNull
	}
	a.b = append(a.b, v...)
}

// str writes a string.
func (a *appender) str(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, err := marshal(s)
			if err != nil {
				a.err = err
			}
			a.b = append(a.b, b...)
			return
		}
	}
	a.b = append(a.b, '"')
	a.b = append(a.b, s...)
	a.b = append(a.b, '"')
}

// list writes the items of a list.
func list[E any](a *appender, name string, items []E, write func(*appender, *E)) {
	a.name(name)
	if items == nil {
		a.b = append(a.b, "null"...)
		return
	}
	a.b = append(a.b, '[')
	for i := range items {
		if i > 0 {
			a.b = append(a.b, ',')
		}
		write(a, &items[i])
	}
	a.b = append(a.b, ']')
}

func listIf[E any](a *appender, name string, items []E, write func(*appender, *E)) {
	if len(items) > 0 {
		list(a, name, items, write)
	}
}

// dict writes a map in the order of its keys, if there are any.
func dict[V any](a *appender, name string, m map[string]V, write func(*appender, *V)) {
	if len(m) == 0 {
		return
	}
	a.name(name)
	a.b = append(a.b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			a.b = append(a.b, ',')
		}
		a.str(k)
		a.b = append(a.b, ':')
		v := m[k]
		write(a, &v)
	}
	a.b = append(a.b, '}')
}

func writeString(a *appender, s *string) { a.str(*s) }
func writeInt(a *appender, n *int)       { a.b = strconv.AppendInt(a.b, int64(*n), 10) }

func writeRaws(a *appender, items *[]json.RawMessage) {
	a.b = append(a.b, '[')
	for i, v := range *items {
		if i > 0 {
			a.b = append(a.b, ',')
		}
		a.value(v)
	}
	a.b = append(a.b, ']')
}

// writeRecord writes the fields in the order of the format.
func writeRecord(a *appender, r *Record) {
	a.b = append(a.b, '{')
	a.num("v", r.V)
	a.text("run", r.Run)
	a.text("machine", r.Machine)
	a.num("version", r.Version)
	a.text("def", r.Def)
	a.numIf("schema", r.Schema)
	a.numIf("epoch", r.Epoch)
	a.seq("rev", r.Rev)
	a.seq("prev", r.Prev)
	a.textIf("prev_txid", r.PrevTxid)
	a.text("txid", r.Txid)
	a.time("at", r.At)
	a.time("started", r.Started)
	a.textIf("build", r.Build)
	a.textIf("by", r.By)
	a.textIf("tenant", r.Tenant)
	writeParent(a, r.Parent)
	list(a, "events", r.Events, writeEvent)
	a.text("from", r.From)
	a.text("to", r.To)
	a.text("status", string(r.Status))
	list(a, "frames", r.Frames, writeFrame)
	a.rawIf("data", r.Data)
	dict(a, "logs", r.Logs, writeLogRef)
	dict(a, "adds", r.Adds, writeRaws)
	dict(a, "index", r.Index, writeString)
	dict(a, "budgets", r.Budgets, writeSpent)
	listIf(a, "pending", r.Pending, writePending)
	listIf(a, "waits", r.Waits, writeWait)
	listIf(a, "undos", r.Undos, writeUndo)
	writeEnding(a, r.Ending)
	listIf(a, "inbox", r.Inbox, writeSignal)
	listIf(a, "applied", r.Applied, writeString)
	listIf(a, "replies", r.Replies, writeReply)
	listIf(a, "outbox", r.Outbox, writeEntry)
	writeCause(a, "cause", r.Cause)
	a.text("input", r.Input)
	if r.Origin != nil {
		a.name("origin")
		a.b = append(a.b, '{')
		a.text("run", r.Origin.Run)
		a.seq("rev", r.Origin.Rev)
		a.textIf("answers", r.Origin.Answers)
		a.trueIf("perform", r.Origin.Perform)
		a.b = append(a.b, '}')
	}
	writeEpoch(a, r.Roll)
	if r.Tomb != nil {
		a.name("tomb")
		a.b = append(a.b, '{')
		a.seq("revs", r.Tomb.Revs)
		a.time("at", r.Tomb.At)
		a.b = append(a.b, '}')
	}
	a.b = append(a.b, '}')
}

func writeEvent(a *appender, e *Event) {
	a.b = append(a.b, '{')
	a.text("id", e.ID)
	a.text("kind", string(e.Kind))
	a.time("at", e.At)
	a.seqIf("seq", e.Seq)
	a.textIf("effect", e.Effect)
	a.textIf("name", e.Name)
	a.numIf("try", e.Try)
	a.rawIf("body", e.Body)
	writeCause(a, "cause", e.Cause)
	a.timeIf("retry_at", e.RetryAt)
	a.trueIf("free", e.Free)
	a.textIf("tenant", e.Tenant)
	a.timeIf("due", e.Due)
	writeParent(a, e.Parent)
	a.trueIf("recorded", e.Recorded)
	a.b = append(a.b, '}')
}

func writeFrame(a *appender, f *Frame) {
	a.b = append(a.b, '{')
	a.num("id", f.ID)
	if f.Parent != nil {
		a.num("parent", *f.Parent)
	}
	a.text("kind", string(f.Kind))
	a.numIf("item", f.Item)
	a.text("state", f.State)
	a.num("visit", f.Visit)
	dict(a, "visits", f.Visits, writeInt)
	writeCause(a, "cause", f.Cause)
	writeFan(a, f.Fan)
	a.b = append(a.b, '}')
}

func writePending(a *appender, p *Pending) {
	a.b = append(a.b, '{')
	a.text("id", p.ID)
	a.num("frame", p.Frame)
	a.numIf("item", p.Item)
	a.text("effect", p.Effect)
	a.textIf("key", p.Key)
	a.textIf("flow", p.Flow)
	a.raw("input", p.Input)
	a.text("print", p.Print)
	a.text("place", string(p.Place))
	a.textIf("wake", p.Wake)
	a.seq("rev", p.Rev)
	a.time("at", p.At)
	a.num("try", p.Try)
	a.num("attempt", p.Attempt)
	a.numIf("depth", p.Depth)
	a.timeIf("retry_at", p.RetryAt)
	a.durationIf("timeout", p.Timeout)
	a.trueIf("can_undo", p.CanUndo)
	a.textIf("undoes", p.Undoes)
	a.textIf("tells", p.Tells)
	writeCause(a, "cause", p.Cause)
	a.timeIf("first_failure", p.First)
	a.numIf("redriven", p.Redriven)
	a.numIf("redrives", p.Redrives)
	a.numIf("edits", p.Edits)
	writeChildRef(a, p.Child)
	a.b = append(a.b, '}')
}

func writeSignal(a *appender, s *InboxSignal) {
	a.b = append(a.b, '{')
	a.text("id", s.ID)
	a.text("name", s.Name)
	a.time("at", s.At)
	a.seqIf("seq", s.Seq)
	a.rawIf("body", s.Body)
	a.b = append(a.b, '}')
}

func writeEntry(a *appender, e *Entry) {
	a.b = append(a.b, '{')
	a.text("kind", string(e.Kind))
	a.text("id", e.ID)
	a.textIf("effect", e.Effect)
	a.numIf("try", e.Try)
	a.timeIf("due", e.Due)
	a.rawIf("body", e.Body)
	a.b = append(a.b, '}')
}

func writeLogRef(a *appender, l *LogRef) {
	a.b = append(a.b, '{')
	a.num("count", l.Count)
	a.numIf("sealed", l.Sealed)
	a.textIf("head", l.Head)
	a.seqIf("after", l.After)
	a.numIf("bytes", l.Bytes)
	a.b = append(a.b, '}')
}

// writeCause writes a cause, if there is one.
func writeCause(a *appender, name string, c *Cause) {
	if c == nil {
		return
	}
	a.name(name)
	a.b = append(a.b, '{')
	a.text("class", c.Class)
	a.text("message", c.Message)
	a.textIf("state", c.State)
	a.textIf("effect", c.Effect)
	a.numIf("attempt", c.Attempt)
	a.textIf("by", c.By)
	a.b = append(a.b, '}')
}
