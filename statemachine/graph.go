package statemachine

func (d *Definition) compile() {
	d.byName = make(map[string]*node, len(d.nodes))
	for i, n := range d.nodes {
		n.next = n.then
		end := n.kind == KindSucceed || n.kind == KindFail
		if n.next == "" && !end && i+1 < len(d.nodes) {
			n.next = d.nodes[i+1].name
		}
		if d.byName[n.name] == nil {
			d.byName[n.name] = n
		}
	}
}
