package model

import "testing"

// TestTable fills a table over several growths and chunks: a state keeps its
// number.
func TestTable(t *testing.T) {
	const n = 3*chunkSize + 7
	tab := newTable[[2]uint32]()
	for i := range n {
		if id, isNew := tab.put(&[2]uint32{uint32(i), 1}); id != i || !isNew {
			t.Fatalf("put(%d) = %d, %v, want %d, true", i, id, isNew, i)
		}
	}
	for i := range n {
		s := [2]uint32{uint32(i), 1}
		if id, isNew := tab.put(&s); id != i || isNew || tab.at(i) != s {
			t.Fatalf("put(%d) again = %d, %v, want %d, false", i, id, isNew, i)
		}
	}
}
