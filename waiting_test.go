package pawl_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
)

// BenchmarkBesideWaiting drives rounds of 1,000 runs of ten steps, first alone
// and then beside 10,000 runs whose effect waits for its next try, and compares
// the best rounds.
//
//	go test -run '^$' -bench BesideWaiting -benchtime 1x .
func BenchmarkBesideWaiting(b *testing.B) {
	const waiting, rounds, runs = 10_000, 5, 1_000
	f := embeddedFleet(b, func(c *pawl.Config) { c.Retry.Initial, c.Retry.Max = time.Hour, time.Hour })
	p := newProvider(b, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) })
	publish := func(prefix string, n int, input string) {
		for i := range n {
			m := nats.NewMsg("pawl.start.kitchensink")
			m.Header.Set("Pawl-Run-Id", fmt.Sprint(prefix, i))
			m.Data = []byte(input)
			if _, err := f.js.PublishMsgAsync(m); err != nil {
				b.Fatal(err)
			}
			if i%1000 == 999 {
				<-f.js.PublishAsyncComplete()
			}
		}
	}
	best := func(prefix string) (most float64) {
		for round := range rounds {
			end, began := f.holds("PAWL_HISTORY")+11*runs, time.Now()
			publish(fmt.Sprint(prefix, round, "-"), runs, `{"steps":[{"do":"noop","repeat":10}]}`)
			eventually(b, time.Minute, "the runs of a round", func() bool { return f.holds("PAWL_HISTORY") >= end })
			most = max(most, 10*runs/time.Since(began).Seconds())
		}
		return most
	}
	for n := range b.N {
		if n > 0 {
			return // those that wait would be there already
		}
		alone := best("alone-")
		publish("waits-", waiting, postStep(p.URL, ""))
		eventually(b, 5*time.Minute, "all that wait", func() bool { return f.holds("PAWL_TIMERS") == waiting && f.holds("PAWL_START") == 0 })
		beside := best("beside-")
		if n := f.holds("PAWL_TIMERS"); n != waiting {
			b.Errorf("%d wait at the end, want %d", n, waiting)
		}
		b.ReportMetric(alone, "steps/s-alone")
		b.ReportMetric(beside, "steps/s-beside")
		b.ReportMetric(beside/alone, "beside/alone")
	}
}
