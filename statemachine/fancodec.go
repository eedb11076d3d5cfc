package statemachine

func writeFan(a *appender, f *Fan) {
	if f == nil {
		return
	}
	a.name("fan")
	a.b = append(a.b, '{')
	a.num("size", f.Size)
	a.numIf("limit", f.Limit)
	a.num("asked", f.Asked)
	a.num("taken", f.Taken)
	a.numIf("failed", f.Failed)
	listIf(a, "held", f.Held, writeFanItem)
	a.b = append(a.b, '}')
}

func writeFanItem(a *appender, h *FanItem) {
	a.b = append(a.b, '{')
	a.num("item", h.Item)
	a.rawIf("body", h.Body)
	writeCause(a, "cause", h.Cause)
	a.b = append(a.b, '}')
}

func readFan(p *scan) *Fan {
	f := new(Fan)
	p.open('{')
	if p.field("size") {
		f.Size = p.int()
	}
	if p.field("limit") {
		f.Limit = p.int()
	}
	if p.field("asked") {
		f.Asked = p.int()
	}
	if p.field("taken") {
		f.Taken = p.int()
	}
	if p.field("failed") {
		f.Failed = p.int()
	}
	if p.field("held") {
		f.Held = items(p, readFanItem)
	}
	p.end('}')
	return f
}

func readFanItem(p *scan, h *FanItem) {
	p.open('{')
	if p.field("item") {
		h.Item = p.int()
	}
	if p.field("body") {
		h.Body = p.raw()
	}
	if p.field("cause") {
		h.Cause = readCause(p)
	}
	p.end('}')
}
