package statemachine

func writeEpoch(a *appender, e *Epoch) {
	if e == nil {
		return
	}
	a.name("roll")
	a.b = append(a.b, '{')
	a.seq("rev", e.Rev)
	writeMark(a, "next", e.Next)
	if e.Keep != (Mark{}) {
		writeMark(a, "keep", e.Keep)
	}
	a.b = append(a.b, '}')
}

func writeMark(a *appender, name string, m Mark) {
	a.name(name)
	a.b = append(a.b, '{')
	a.seq("rev", m.Rev)
	a.seqIf("after", m.After)
	a.b = append(a.b, '}')
}

func readEpoch(p *scan) *Epoch {
	p.open('{')
	e := new(Epoch)
	if p.field("rev") {
		e.Rev = p.uint()
	}
	if p.field("next") {
		e.Next = readMark(p)
	}
	if p.field("keep") {
		e.Keep = readMark(p)
	}
	p.end('}')
	return e
}

func readMark(p *scan) (m Mark) {
	p.open('{')
	if p.field("rev") {
		m.Rev = p.uint()
	}
	if p.field("after") {
		m.After = p.uint()
	}
	p.end('}')
	return m
}
