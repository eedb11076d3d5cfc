package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/storetest"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// maxWaiting is what a waiting run with 1 KB of data may take in Redis.
const maxWaiting = 4096

// TestMemoryOfWaitingRuns measures runs that wait: 1 KB of data, a search
// field, a pending effect with a timer. Both by MEMORY USAGE over all keys,
// and by what the server's memory grew.
func TestMemoryOfWaitingRuns(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, f *fixture) {
		const runs = 4000
		do(t, f.client.FlushAll(t.Context()))
		empty := usedMemory(t, f.client)
		data := json.RawMessage(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
		record := 0
		for from := 0; from < runs; from += 200 {
			saves := make([]worker.Save, 200)
			for i := range saves {
				st := storetest.Stored(t, fmt.Sprintf("onboarding-site-%06d", from+i), uint64(1_000_000+from+i), withIndex("site", fmt.Sprint(from+i)),
					storetest.In("approval", statemachine.StatusRunning), func(r *statemachine.Record) {
						r.Machine, r.From, r.Data = "onboarding", "request_irb", data
						r.Def, r.Txid, r.PrevTxid, r.Input = strings.Repeat("d", 22), "", strings.Repeat("p", 22), strings.Repeat("i", 22)
						r.Pending = []statemachine.Pending{{ID: strings.Repeat("e", 22), Effect: "approval", Place: statemachine.Retry, At: r.At, Attempt: 1, Print: strings.Repeat("f", 22), Input: json.RawMessage(`{}`)}}
					})
				record = len(st.Bytes)
				saves[i].Stored = st
			}
			if _, err := f.Save(t.Context(), saves); err != nil {
				t.Fatalf("Save: %v", err)
			}
			hints := make([]worker.Hint, len(saves))
			for i := range saves {
				hints[i] = worker.Hint{Run: saves[i].Stored.Run, Txid: saves[i].Stored.Txid}
			}
			if err := f.Flushed(t.Context(), hints); err != nil {
				t.Fatalf("Flushed: %v", err)
			}
		}
		grown := (usedMemory(t, f.client) - empty) / runs
		var sum int64
		iter := f.client.Scan(t.Context(), 0, "*", 1000).Iterator()
		for iter.Next(t.Context()) {
			sum += f.client.MemoryUsage(t.Context(), iter.Val(), 0).Val()
		}
		if err := iter.Err(); err != nil {
			t.Fatalf("SCAN: %v", err)
		}
		t.Logf("a waiting run: record %d bytes, MEMORY USAGE %d, memory grown %d", record, sum/runs, grown)
		if sum/runs > maxWaiting || grown > maxWaiting {
			t.Errorf("a waiting run takes %d bytes by MEMORY USAGE, %d by growth, want at most %d", sum/runs, grown, maxWaiting)
		}
	})
}

func usedMemory(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	info := client.InfoMap(context.WithoutCancel(t.Context()), "memory").Val()
	var n int64
	if _, err := fmt.Sscan(info["Memory"]["used_memory"], &n); err != nil {
		t.Fatalf("used_memory: %v", err)
	}
	return n
}
