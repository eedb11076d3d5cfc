package model

import "math"

// maxRecords bounds the length of a chain. A setting that exceeds it is a
// mistake in the setting, not a state to be left out in silence.
const maxRecords = 15

// ref is the index of a record in a history; 0 is the empty chain.
type ref uint16

// history holds every chain the search has met as one tree: a record is
// stored once for each chain it ends. A state then names its whole chain by
// one number.
type history struct {
	nodes []node
	index map[link]ref
	cuts  map[cut]ref
}

type node struct {
	record record
	path   [maxRecords + 1]ref // path[i] is the i-th record of the chain
	seq    uint8
}

type link struct {
	parent ref
	record record
}

type cut struct {
	head ref
	off  uint8
}

func newHistory() *history {
	return &history{
		nodes: make([]node, 1),
		index: make(map[link]ref),
		cuts:  make(map[cut]ref),
	}
}

// append returns the chain of parent with r at its end.
func (h *history) append(parent ref, r record) ref {
	l := link{parent, r}
	if id, ok := h.index[l]; ok {
		return id
	}
	n := node{record: r, path: h.nodes[parent].path, seq: h.nodes[parent].seq + 1}
	if n.seq > maxRecords || len(h.nodes) > math.MaxUint16 {
		panic("model: history too long")
	}
	id := ref(len(h.nodes))
	n.path[n.seq] = id
	h.nodes = append(h.nodes, n)
	h.index[l] = id
	return id
}

func (h *history) seq(head ref) uint8    { return h.nodes[head].seq }
func (h *history) last(head ref) *record { return &h.nodes[head].record }
func (h *history) parent(head ref) ref   { n := &h.nodes[head]; return n.path[n.seq-1] }

// at returns record seq of the chain that ends in head.
func (h *history) at(head ref, seq uint8) *record {
	return &h.nodes[h.nodes[head].path[seq]].record
}

// forget returns the chain of head without its first off records.
func (h *history) forget(head ref, off uint8) ref {
	if off == 0 {
		return head
	}
	c := cut{head, off}
	if id, ok := h.cuts[c]; ok {
		return id
	}
	id := ref(0)
	path := h.nodes[head].path
	for seq := off + 1; seq <= h.nodes[head].seq; seq++ {
		id = h.append(id, h.nodes[path[seq]].record)
	}
	h.cuts[c] = id
	return id
}
