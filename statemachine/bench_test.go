package statemachine_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// BenchmarkTurn is what a worker does with one result: decode the last record
// of about 1 KB, fold the result in, encode the next.
func BenchmarkTurn(b *testing.B) {
	d := orders().Definitions()[0]
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	env := sm.Env{Now: at, Build: "v1.2.3-abcdef", By: "worker-7f9c-xk2lp", Place: func(*sm.Pending) sm.Place { return sm.Inline }}
	f := d.Begin("order-4711", nil, env)
	input := `{"id":"4711","total":12,"note":"` + strings.Repeat("x", 120) + `"}`
	if _, err := f.Apply(sm.Event{Kind: sm.EventStart, At: at, Seq: 12345, Body: json.RawMessage(input)}); err != nil {
		b.Fatal(err)
	}
	s, err := f.Seal()
	if err != nil {
		b.Fatal(err)
	}
	stored := s.Stored
	stored.Seq = 777
	id := stored.Pending[0].ID
	body := json.RawMessage(`{"ok":true,"note":"` + strings.Repeat("y", 80) + `"}`)
	b.Logf("record of %d bytes", len(stored.Bytes))

	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			r, err := sm.Decode(stored.Bytes)
			if err != nil {
				b.Fatal(err)
			}
			f := d.Begin("order-4711", &sm.Stored{Record: r, Seq: 777, Bytes: stored.Bytes}, env)
			if o, err := f.Apply(sm.Event{Kind: sm.EventResult, At: at, Effect: id, Body: body}); o != sm.Applied || err != nil {
				b.Fatal(o, err)
			}
			if _, err := f.Seal(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			if _, err := sm.Decode(stored.Bytes); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		r := *stored.Record
		defer reportCPU(b)()
		for b.Loop() {
			if _, err := sm.Encode(&r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// reportCPU reports the processor time of an operation, which on a shared
// machine says more than the time that passed. It includes the collector's.
func reportCPU(b *testing.B) func() {
	start := cpuTime(b)
	return func() {
		b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
