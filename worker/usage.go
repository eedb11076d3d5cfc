package worker

import (
	"hash/maphash"
	"math"
	"time"

	"github.com/pawlrun/pawl/queue"
)

// The class of a start in line is by how many of its tenant and priority this
// worker has put in line of late, itself included. What came before counts half
// after each usageHalf.
const (
	usageHalf  = 30 * time.Second
	firstClass = 64 // starts; each class takes up to classStep times the one before
	classStep  = 16
)

const (
	usageRows = 4
	usageBits = 12
)

// usage counts how many starts tenants had of late, for any number of them: it
// is a count-min sketch, in which tenants share counters. A count is never too
// low; it is too high for who shares all usageRows counters with tenants that
// have more.
type usage struct {
	seed maphash.Seed
	rows [usageRows][1 << usageBits]uint32
	half time.Time // when all was halved last
}

func newUsage(now time.Time) *usage { return &usage{seed: maphash.MakeSeed(), half: now} }

// class counts a start, and returns its class.
func (u *usage) class(priority queue.Priority, tenant string, now time.Time) int {
	class, most := 1, uint32(firstClass)
	for n := u.add(string(priority)+" "+tenant, now); class < queue.Classes && n > most; class++ {
		most *= classStep
	}
	return class
}

// add counts one more for a name, and returns its count.
func (u *usage) add(name string, now time.Time) uint32 {
	if halvings := int(now.Sub(u.half) / usageHalf); halvings > 0 {
		u.half = u.half.Add(time.Duration(halvings) * usageHalf)
		for i := range u.rows {
			for k := range u.rows[i] {
				u.rows[i][k] >>= min(halvings, 32)
			}
		}
	}
	h := maphash.String(u.seed, name)
	var cells [usageRows]*uint32
	least := uint32(math.MaxUint32)
	for i := range cells {
		cells[i] = &u.rows[i][h>>(i*usageBits)&(1<<usageBits-1)]
		least = min(least, *cells[i])
	}
	if least < math.MaxUint32 {
		least++
	}
	for _, c := range cells {
		*c = max(*c, least) // no more than it must: others share it
	}
	return least
}
