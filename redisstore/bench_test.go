package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

const benchBatch = 200

// benchSaves are saves of one record each of many runs in different
// partitions, round after round in another state, with 500 bytes of data.
// With claims each round claims an effect and releases that of the round
// before, as runs with inline effects do.
func benchSaves(b *testing.B, rounds int, claims bool) [][]worker.Save {
	b.Helper()
	data := json.RawMessage(`{"text":"` + strings.Repeat("x", 480) + `"}`)
	all := make([][]worker.Save, rounds)
	for round := range all {
		all[round] = make([]worker.Save, benchBatch)
		for i := range all[round] {
			st := storetest.Stored(b, fmt.Sprintf("run-%d", i), uint64(round+1), storetest.In(fmt.Sprintf("step%d", round%10), statemachine.StatusRunning),
				func(r *statemachine.Record) { r.Data = data })
			all[round][i] = worker.Save{Stored: st, Owner: "worker-1", Lease: time.Minute}
			if claims {
				all[round][i].Claim = []string{fmt.Sprintf("effect-of-record-%d", round)}
				all[round][i].Release = []string{fmt.Sprintf("effect-of-record-%d", round-1)}
			}
		}
	}
	return all
}

// advance makes the saves of a round newer than any before, keeping bytes.
func advance(saves []worker.Save, n int) {
	for i := range saves {
		st := *saves[i].Stored
		st.Seq = uint64(n)*benchBatch + uint64(i) + 1
		saves[i].Stored = &st
	}
}

// serverTime is the processor time that a real server has used so far.
func serverTime(b *testing.B, s *Store) time.Duration {
	b.Helper()
	info, err := s.client.Info(b.Context(), "cpu").Result()
	if err != nil {
		return 0 // the stand-in does not tell
	}
	var sum time.Duration
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && (name == "used_cpu_user" || name == "used_cpu_sys") {
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// report reports microseconds per run: passed, and used by a real server.
func report(b *testing.B, s *Store, before time.Duration, runs int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(runs), "µs/run")
	if used := serverTime(b, s) - before; used > 0 {
		b.ReportMetric(float64(used.Microseconds())/float64(runs), "server-µs/run")
	}
}

func BenchmarkSave(b *testing.B) {
	for _, kind := range redistest.Kinds(b) {
		for _, claims := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/claims=%v", kind, claims), func(b *testing.B) {
				s := open(b, redistest.Start(b, kind).Client(b), Options{})
				rounds := benchSaves(b, 10, claims)
				n, before := 0, serverTime(b, s)
				for b.Loop() {
					saves := rounds[n%len(rounds)]
					n++
					advance(saves, n)
					if _, err := s.Save(b.Context(), saves); err != nil {
						b.Fatal(err)
					}
				}
				report(b, s, before, n*benchBatch)
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, kind := range redistest.Kinds(b) {
		b.Run(string(kind), func(b *testing.B) {
			s := open(b, redistest.Start(b, kind).Client(b), Options{})
			saves := benchSaves(b, 1, false)[0]
			if _, err := s.Save(b.Context(), saves); err != nil {
				b.Fatal(err)
			}
			runs := make([]string, len(saves))
			for i := range saves {
				runs[i] = saves[i].Stored.Run
			}
			n, before := 0, serverTime(b, s)
			for b.Loop() {
				n++
				if _, err := s.Load(b.Context(), runs); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s, before, n*benchBatch)
		})
	}
}

// BenchmarkFloor is what writing the same fields costs without any condition,
// claim or index: one HSET per run, in a pipeline.
func BenchmarkFloor(b *testing.B) {
	for _, kind := range redistest.Kinds(b) {
		b.Run(string(kind), func(b *testing.B) {
			s := open(b, redistest.Start(b, kind).Client(b), Options{})
			rounds := benchSaves(b, 10, false)
			n, before := 0, serverTime(b, s)
			for b.Loop() {
				pipe := s.client.Pipeline()
				for _, sv := range rounds[n%len(rounds)] {
					pipe.HSet(b.Context(), s.keys.run(0, sv.Stored.Run), "seq", sv.Stored.Seq, "txid", sv.Stored.Txid, "rev", sv.Stored.Rev,
						"machine", "demo", "version", 1, "state", sv.Stored.To, "status", "running", "at", formatTime(sv.Stored.At), "record", sv.Stored.Bytes)
				}
				n++
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s, before, n*benchBatch)
		})
	}
}
