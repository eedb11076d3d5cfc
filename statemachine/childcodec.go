package statemachine

// writeParent writes whose child the run is, if it is one.
func writeParent(a *appender, p *Parent) {
	if p == nil {
		return
	}
	a.name("parent")
	a.b = append(a.b, '{')
	a.text("run", p.Run)
	a.text("effect", p.Effect)
	a.seq("asked", p.Asked)
	a.num("level", p.Level)
	a.b = append(a.b, '}')
}

func readParent(p *scan) *Parent {
	r := new(Parent)
	p.open('{')
	if p.field("run") {
		r.Run = p.str()
	}
	if p.field("effect") {
		r.Effect = p.str()
	}
	if p.field("asked") {
		r.Asked = p.uint()
	}
	if p.field("level") {
		r.Level = p.int()
	}
	p.end('}')
	return r
}

// writeChildRef writes which run a pending effect stands for, if it does.
func writeChildRef(a *appender, c *ChildRef) {
	if c == nil {
		return
	}
	a.name("child")
	a.b = append(a.b, '{')
	a.text("run", c.Run)
	a.text("machine", c.Machine)
	a.trueIf("given", c.Given)
	a.trueIf("abandon", c.Abandon)
	a.b = append(a.b, '}')
}

func readChildRef(p *scan) *ChildRef {
	c := new(ChildRef)
	p.open('{')
	if p.field("run") {
		c.Run = p.str()
	}
	if p.field("machine") {
		c.Machine = p.str()
	}
	if p.field("given") {
		c.Given = p.isTrue()
	}
	if p.field("abandon") {
		c.Abandon = p.isTrue()
	}
	p.end('}')
	return c
}
