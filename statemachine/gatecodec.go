package statemachine

import "time"

func writeGate(a *appender, g *Gate) {
	if g == nil {
		return
	}
	a.name("gate")
	a.b = append(a.b, '{')
	list(a, "by", g.By, writeString)
	a.num("quorum", g.Quorum)
	a.trueIf("pinned", g.Pinned)
	a.num("visit", g.Visit)
	a.raw("shown", g.Shown)
	a.text("hash", g.Hash)
	a.durationIf("remind", g.Remind)
	listIf(a, "escalate", g.Escalate, writeLevel)
	a.textIf("default", string(g.Default))
	listIf(a, "answers", g.Answers, writeVote)
	listIf(a, "delegated", g.Delegated, writeDelegation)
	a.b = append(a.b, '}')
}

func writeLevel(a *appender, e *Level) {
	a.b = append(a.b, '{')
	a.text("after", time.Duration(e.After).String())
	list(a, "by", e.By, writeString)
	a.b = append(a.b, '}')
}

func writeVote(a *appender, s *Vote) {
	a.b = append(a.b, '{')
	a.text("by", s.By)
	a.text("verdict", string(s.Verdict))
	a.time("at", s.At)
	a.textIf("reason", s.Reason)
	a.b = append(a.b, '}')
}

func writeDelegation(a *appender, d *Delegation) {
	a.b = append(a.b, '{')
	a.text("from", d.From)
	a.text("to", d.To)
	a.time("at", d.At)
	a.textIf("reason", d.Reason)
	a.b = append(a.b, '}')
}

func readGate(p *scan) *Gate {
	g := new(Gate)
	p.open('{')
	if p.field("by") {
		g.By = items(p, readString)
	}
	if p.field("quorum") {
		g.Quorum = p.int()
	}
	if p.field("pinned") {
		g.Pinned = p.isTrue()
	}
	if p.field("visit") {
		g.Visit = p.int()
	}
	if p.field("shown") {
		g.Shown = p.raw()
	}
	if p.field("hash") {
		g.Hash = p.str()
	}
	if p.field("remind") {
		g.Remind = readDuration(p)
	}
	if p.field("escalate") {
		g.Escalate = items(p, readLevel)
	}
	if p.field("default") {
		g.Default = Verdict(p.str())
	}
	if p.field("answers") {
		g.Answers = items(p, readVote)
	}
	if p.field("delegated") {
		g.Delegated = items(p, readDelegation)
	}
	p.end('}')
	return g
}

func readLevel(p *scan, e *Level) {
	p.open('{')
	if p.field("after") {
		e.After = readDuration(p)
	}
	if p.field("by") {
		e.By = items(p, readString)
	}
	p.end('}')
}

func readVote(p *scan, s *Vote) {
	p.open('{')
	if p.field("by") {
		s.By = p.str()
	}
	if p.field("verdict") {
		s.Verdict = Verdict(p.str())
	}
	if p.field("at") {
		s.At = p.time()
	}
	if p.field("reason") {
		s.Reason = p.str()
	}
	p.end('}')
}

func readDelegation(p *scan, d *Delegation) {
	p.open('{')
	if p.field("from") {
		d.From = p.str()
	}
	if p.field("to") {
		d.To = p.str()
	}
	if p.field("at") {
		d.At = p.time()
	}
	if p.field("reason") {
		d.Reason = p.str()
	}
	p.end('}')
}
