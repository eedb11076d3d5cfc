package model

import "hash/maphash"

// chunkBits is the size of the pieces in which columns and tables grow, so
// that growing copies nothing.
const (
	chunkBits = 16
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
)

// column is a growing list of numbers.
type column struct {
	chunks [][]uint32
	n      int
}

func (c *column) len() int        { return c.n }
func (c *column) at(i int) uint32 { return c.chunks[i>>chunkBits][i&chunkMask] }

func (c *column) add(v uint32) {
	if c.n&chunkMask == 0 {
		c.chunks = append(c.chunks, make([]uint32, chunkSize))
	}
	c.chunks[c.n>>chunkBits][c.n&chunkMask] = v
	c.n++
}

// table is a set of states, numbered in the order they were met: an
// open-addressing hash table of numbers beside the states themselves.
type table[S comparable] struct {
	seed   maphash.Seed
	chunks [][]S
	slots  []slot
	n      int
}

// slot holds a state's number plus one, and bits of its hash, which spare
// most looks at the states.
type slot struct {
	id   uint32
	mark uint32
}

const firstSlots = 1 << 12

func newTable[S comparable]() *table[S] {
	return &table[S]{seed: maphash.MakeSeed(), slots: make([]slot, firstSlots)}
}

func (t *table[S]) len() int   { return t.n }
func (t *table[S]) at(i int) S { return t.chunks[i>>chunkBits][i&chunkMask] }

// put returns the number of a state, and whether it is new.
func (t *table[S]) put(s *S) (int, bool) {
	if t.n*4 >= len(t.slots)*3 {
		t.grow()
	}
	h := maphash.Comparable(t.seed, *s)
	mask := uint64(len(t.slots) - 1)
	mark := uint32(h >> 32)
	i := h & mask
	for ; t.slots[i].id != 0; i = (i + 1) & mask {
		if t.slots[i].mark != mark {
			continue
		}
		id := int(t.slots[i].id - 1)
		if t.chunks[id>>chunkBits][id&chunkMask] == *s {
			return id, false
		}
	}
	if t.n&chunkMask == 0 {
		t.chunks = append(t.chunks, make([]S, chunkSize))
	}
	t.chunks[t.n>>chunkBits][t.n&chunkMask] = *s
	t.n++
	t.slots[i] = slot{uint32(t.n), mark}
	return t.n - 1, true
}

func (t *table[S]) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		id := int(s.id - 1)
		i := maphash.Comparable(t.seed, t.chunks[id>>chunkBits][id&chunkMask]) & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}
