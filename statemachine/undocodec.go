package statemachine

func writeUndo(a *appender, u *Undo) {
	a.b = append(a.b, '{')
	a.text("of", u.Of)
	a.text("state", u.State)
	a.text("effect", u.Effect)
	a.textIf("key", u.Key)
	a.textIf("flow", u.Flow)
	a.raw("input", u.Input)
	a.text("print", u.Print)
	a.durationIf("timeout", u.Timeout)
	a.trueIf("queued", u.Queued)
	a.b = append(a.b, '}')
}

func writeEnding(a *appender, e *Ending) {
	if e == nil {
		return
	}
	a.name("ending")
	a.b = append(a.b, '{')
	a.text("status", string(e.Status))
	writeCause(a, "cause", e.Cause)
	a.b = append(a.b, '}')
}

func readUndo(p *scan, u *Undo) {
	p.open('{')
	if p.field("of") {
		u.Of = p.str()
	}
	if p.field("state") {
		u.State = p.str()
	}
	if p.field("effect") {
		u.Effect = p.str()
	}
	if p.field("key") {
		u.Key = p.str()
	}
	if p.field("flow") {
		u.Flow = p.str()
	}
	if p.field("input") {
		u.Input = p.raw()
	}
	if p.field("print") {
		u.Print = p.str()
	}
	if p.field("timeout") {
		u.Timeout = readDuration(p)
	}
	if p.field("queued") {
		u.Queued = p.isTrue()
	}
	p.end('}')
}

func readEnding(p *scan) *Ending {
	e := new(Ending)
	p.open('{')
	if p.field("status") {
		e.Status = Status(p.str())
	}
	if p.field("cause") {
		e.Cause = readCause(p)
	}
	p.end('}')
	return e
}
