package statemachine

func writeWait(a *appender, w *Wait) {
	a.b = append(a.b, '{')
	a.text("id", w.ID)
	a.num("frame", w.Frame)
	a.numIf("item", w.Item)
	a.text("kind", string(w.Kind))
	a.textIf("signal", w.Signal)
	a.timeIf("due", w.Due)
	a.num("try", w.Try)
	a.time("at", w.At)
	writeGate(a, w.Gate)
	a.textIf("of", w.Of)
	writeCause(a, "cause", w.Cause)
	a.b = append(a.b, '}')
}

func readWait(p *scan, w *Wait) {
	p.open('{')
	if p.field("id") {
		w.ID = p.str()
	}
	if p.field("frame") {
		w.Frame = p.int()
	}
	if p.field("item") {
		w.Item = p.int()
	}
	if p.field("kind") {
		w.Kind = WaitKind(p.str())
	}
	if p.field("signal") {
		w.Signal = p.str()
	}
	if p.field("due") {
		w.Due = p.timePtr()
	}
	if p.field("try") {
		w.Try = p.int()
	}
	if p.field("at") {
		w.At = p.time()
	}
	if p.field("gate") {
		w.Gate = readGate(p)
	}
	if p.field("of") {
		w.Of = p.str()
	}
	if p.field("cause") {
		w.Cause = readCause(p)
	}
	p.end('}')
}
