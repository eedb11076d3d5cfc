package pawl_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/api"
)

// BenchmarkShow asks a worker for runs of 200,000, half of which wait and half
// of which have ended: each in a block of HISTORY that nobody read before, and
// then again.
//
//	go test -run '^$' -bench Show -benchtime 3000x .
func BenchmarkShow(b *testing.B) {
	const runs = 200_000
	f, _, store := crowdedFleet(b, runs)
	startProcess(b, f.env)
	complete(b, store)
	for _, pass := range []string{"first", "again"} {
		b.Run(pass, func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for n := range b.N {
				id := fmt.Sprintf("order-%07d", n*7919%runs)
				request, _ := json.Marshal(api.RunQuery{ID: id})
				began := time.Now()
				m, err := f.nc.Request(api.Subject("pawl", "", api.RunsGet), request, 5*time.Second)
				took = append(took, time.Since(began))
				var run api.Run
				if err != nil || json.Unmarshal(m.Data, &run) != nil || run.ID != id {
					b.Fatalf("show %s: %v, %+v", id, err, run)
				}
			}
			slices.Sort(took)
			for name, d := range map[string]time.Duration{"p50": took[len(took)/2], "p99": took[len(took)*99/100], "max": took[len(took)-1]} {
				b.ReportMetric(float64(d.Microseconds())/1000, name+"-ms")
			}
			late := 0
			for _, d := range took {
				if d > 20*time.Millisecond {
					late++
				}
			}
			b.ReportMetric(float64(late), "over-20ms")
		})
	}
}
