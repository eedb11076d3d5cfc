package statemachine

import "time"

// readRecord reads the fields in the order of the format.
func readRecord(p *scan, r *Record) {
	p.open('{')
	if p.field("v") {
		r.V = p.int()
	}
	if p.field("run") {
		r.Run = p.str()
	}
	if p.field("machine") {
		r.Machine = p.str()
	}
	if p.field("version") {
		r.Version = p.int()
	}
	if p.field("def") {
		r.Def = p.str()
	}
	if p.field("schema") {
		r.Schema = p.int()
	}
	if p.field("epoch") {
		r.Epoch = p.int()
	}
	if p.field("rev") {
		r.Rev = p.uint()
	}
	if p.field("prev") {
		r.Prev = p.uint()
	}
	if p.field("prev_txid") {
		r.PrevTxid = p.str()
	}
	if p.field("txid") {
		r.Txid = p.str()
	}
	if p.field("at") {
		r.At = p.time()
	}
	if p.field("started") {
		r.Started = p.time()
	}
	if p.field("build") {
		r.Build = p.str()
	}
	if p.field("by") {
		r.By = p.str()
	}
	if p.field("tenant") {
		r.Tenant = p.str()
	}
	if p.field("parent") {
		r.Parent = readParent(p)
	}
	if p.field("events") {
		r.Events = items(p, readEvent)
	}
	if p.field("from") {
		r.From = p.str()
	}
	if p.field("to") {
		r.To = p.str()
	}
	if p.field("status") {
		r.Status = Status(p.str())
	}
	if p.field("frames") {
		r.Frames = items(p, readFrame)
	}
	if p.field("data") {
		r.Data = p.raw()
	}
	if p.field("logs") {
		r.Logs = entries(p, readLogRef)
	}
	if p.field("adds") {
		r.Adds = entries(p, readRaws)
	}
	if p.field("index") {
		r.Index = entries(p, readString)
	}
	if p.field("budgets") {
		r.Budgets = entries(p, readSpent)
	}
	if p.field("pending") {
		r.Pending = items(p, readPending)
	}
	if p.field("waits") {
		r.Waits = items(p, readWait)
	}
	if p.field("undos") {
		r.Undos = items(p, readUndo)
	}
	if p.field("ending") {
		r.Ending = readEnding(p)
	}
	if p.field("inbox") {
		r.Inbox = items(p, readSignal)
	}
	if p.field("applied") {
		r.Applied = items(p, readString)
	}
	if p.field("replies") {
		r.Replies = items(p, readReply)
	}
	if p.field("outbox") {
		r.Outbox = items(p, readEntry)
	}
	if p.field("cause") {
		r.Cause = readCause(p)
	}
	if p.field("input") {
		r.Input = p.str()
	}
	if p.field("origin") {
		r.Origin = readOrigin(p)
	}
	if p.field("roll") {
		r.Roll = readEpoch(p)
	}
	if p.field("tomb") {
		r.Tomb = readTomb(p)
	}
	p.end('}')
}

func readEvent(p *scan, e *Event) {
	p.open('{')
	if p.field("id") {
		e.ID = p.str()
	}
	if p.field("kind") {
		e.Kind = EventKind(p.str())
	}
	if p.field("at") {
		e.At = p.time()
	}
	if p.field("seq") {
		e.Seq = p.uint()
	}
	if p.field("effect") {
		e.Effect = p.str()
	}
	if p.field("name") {
		e.Name = p.str()
	}
	if p.field("try") {
		e.Try = p.int()
	}
	if p.field("body") {
		e.Body = p.raw()
	}
	if p.field("cause") {
		e.Cause = readCause(p)
	}
	if p.field("retry_at") {
		e.RetryAt = p.timePtr()
	}
	if p.field("free") {
		e.Free = p.isTrue()
	}
	if p.field("tenant") {
		e.Tenant = p.str()
	}
	if p.field("due") {
		e.Due = p.timePtr()
	}
	if p.field("parent") {
		e.Parent = readParent(p)
	}
	if p.field("recorded") {
		e.Recorded = p.isTrue()
	}
	p.end('}')
}

func readFrame(p *scan, f *Frame) {
	p.open('{')
	if p.field("id") {
		f.ID = p.int()
	}
	if p.field("parent") {
		n := p.int()
		f.Parent = &n
	}
	if p.field("kind") {
		f.Kind = FrameKind(p.str())
	}
	if p.field("item") {
		f.Item = p.int()
	}
	if p.field("state") {
		f.State = p.str()
	}
	if p.field("visit") {
		f.Visit = p.int()
	}
	if p.field("visits") {
		f.Visits = entries(p, readInt)
	}
	if p.field("cause") {
		f.Cause = readCause(p)
	}
	if p.field("fan") {
		f.Fan = readFan(p)
	}
	p.end('}')
}

func readPending(p *scan, q *Pending) {
	p.open('{')
	if p.field("id") {
		q.ID = p.str()
	}
	if p.field("frame") {
		q.Frame = p.int()
	}
	if p.field("item") {
		q.Item = p.int()
	}
	if p.field("effect") {
		q.Effect = p.str()
	}
	if p.field("key") {
		q.Key = p.str()
	}
	if p.field("flow") {
		q.Flow = p.str()
	}
	if p.field("input") {
		q.Input = p.raw()
	}
	if p.field("print") {
		q.Print = p.str()
	}
	if p.field("place") {
		q.Place = Place(p.str())
	}
	if p.field("wake") {
		q.Wake = p.str()
	}
	if p.field("rev") {
		q.Rev = p.uint()
	}
	if p.field("at") {
		q.At = p.time()
	}
	if p.field("try") {
		q.Try = p.int()
	}
	if p.field("attempt") {
		q.Attempt = p.int()
	}
	if p.field("depth") {
		q.Depth = p.int()
	}
	if p.field("retry_at") {
		q.RetryAt = p.timePtr()
	}
	if p.field("timeout") {
		q.Timeout = readDuration(p)
	}
	if p.field("can_undo") {
		q.CanUndo = p.isTrue()
	}
	if p.field("undoes") {
		q.Undoes = p.str()
	}
	if p.field("tells") {
		q.Tells = p.str()
	}
	if p.field("cause") {
		q.Cause = readCause(p)
	}
	if p.field("first_failure") {
		q.First = p.timePtr()
	}
	if p.field("redriven") {
		q.Redriven = p.int()
	}
	if p.field("redrives") {
		q.Redrives = p.int()
	}
	if p.field("edits") {
		q.Edits = p.int()
	}
	if p.field("child") {
		q.Child = readChildRef(p)
	}
	p.end('}')
}

func readDuration(p *scan) Duration {
	d, err := time.ParseDuration(p.str())
	p.bad = p.bad || err != nil
	return Duration(d)
}

func readSignal(p *scan, s *InboxSignal) {
	p.open('{')
	if p.field("id") {
		s.ID = p.str()
	}
	if p.field("name") {
		s.Name = p.str()
	}
	if p.field("at") {
		s.At = p.time()
	}
	if p.field("seq") {
		s.Seq = p.uint()
	}
	if p.field("body") {
		s.Body = p.raw()
	}
	p.end('}')
}

func readEntry(p *scan, e *Entry) {
	p.open('{')
	if p.field("kind") {
		e.Kind = EntryKind(p.str())
	}
	if p.field("id") {
		e.ID = p.str()
	}
	if p.field("effect") {
		e.Effect = p.str()
	}
	if p.field("try") {
		e.Try = p.int()
	}
	if p.field("due") {
		e.Due = p.timePtr()
	}
	if p.field("body") {
		e.Body = p.raw()
	}
	p.end('}')
}

func readLogRef(p *scan, l *LogRef) {
	p.open('{')
	if p.field("count") {
		l.Count = p.int()
	}
	if p.field("sealed") {
		l.Sealed = p.int()
	}
	if p.field("head") {
		l.Head = p.str()
	}
	if p.field("after") {
		l.After = p.uint()
	}
	if p.field("bytes") {
		l.Bytes = p.int()
	}
	p.end('}')
}

func readCause(p *scan) *Cause {
	c := new(Cause)
	p.open('{')
	if p.field("class") {
		c.Class = p.str()
	}
	if p.field("message") {
		c.Message = p.str()
	}
	if p.field("state") {
		c.State = p.str()
	}
	if p.field("effect") {
		c.Effect = p.str()
	}
	if p.field("attempt") {
		c.Attempt = p.int()
	}
	if p.field("by") {
		c.By = p.str()
	}
	p.end('}')
	return c
}
