package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/bench"
)

func TestBench(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	for _, how := range []string{"--inflight 10", "--inflight 10 --queued", "--serial"} {
		got := pawlRun(t, strings.Fields("-s "+url+" bench --runs 30 --steps 3 --pad 10 -o json "+how)...)
		var r bench.Report
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 0 {
			t.Fatalf("pawl bench %s = %+v, %v", how, got, err)
		}
		if r.RecordsPerRun != 4 || r.Wrong != 0 || r.Errors != 0 || r.Letters != 0 || r.Warmup != 3 || r.StepsPerSecond <= 0 {
			t.Errorf("pawl bench %s: %s", how, got.stdout)
		}
		if runtime.GOOS == "linux" && (len(r.Processes) != 1 || r.Processes[0].PID != os.Getpid() || !strings.HasPrefix(r.Processes[0].Name, "bench+nats")) {
			t.Errorf("pawl bench %s counts %+v", how, r.Processes)
		}
	}
	// Naming one process leaves the workers in.
	got := pawlRun(t, "-s", url, "bench", "--runs", "5", "--steps", "1", "--pid", fmt.Sprintf("load=%d", os.Getpid()), "-o", "json")
	if runtime.GOOS == "linux" && (!strings.Contains(got.stdout, "+load+worker-1") || strings.Contains(got.stderr, "not counted")) {
		t.Errorf("pawl bench --pid = %+v", got)
	}
	if got := pawlRun(t, strings.Fields("-s "+url+" bench --runs 10 --steps 2")...); got.code != 0 || !strings.Contains(got.stdout, "records per run         3\n") {
		t.Errorf("pawl bench = %+v", got)
	}
}
