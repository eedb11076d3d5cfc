package statemachine

func readOrigin(p *scan) *Origin {
	p.open('{')
	o := new(Origin)
	if p.field("run") {
		o.Run = p.str()
	}
	if p.field("rev") {
		o.Rev = p.uint()
	}
	if p.field("answers") {
		o.Answers = p.str()
	}
	if p.field("perform") {
		o.Perform = p.isTrue()
	}
	p.end('}')
	return o
}
