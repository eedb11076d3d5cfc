package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/doctor"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
)

// packed is what was printed, on one line with single blanks.
func packed(o outcome) string { return strings.Join(strings.Fields(o.stdout), " ") }

func TestDoctor(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	redis := redistest.Start(t, redistest.Mini).Addr
	ask := func(args string) outcome { t.Helper(); return pawlRun(t, strings.Fields("-s "+url+" "+args)...) }
	if got := ask("doctor"); got.code != 1 || !strings.Contains(got.stdout, "\n         → pawl provision; or is --prefix pawl another fleet's?\n") || !strings.HasPrefix(got.stderr, "pawl: 1 failed, ") {
		t.Errorf("before provision, pawl doctor = %+v", got)
	}
	if got := ask("provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	if got := ask("doctor --redis " + redis); got.code != 0 || !strings.Contains(packed(got), "ok streams all streams") {
		t.Errorf("pawl doctor = %+v", got)
	}
	if got := ask("doctor --strict --redis " + redis); got.code != 1 {
		t.Errorf("pawl doctor --strict = %+v", got)
	}
	var answer struct {
		Worst    doctor.Status
		Counts   map[doctor.Status]int
		Findings []doctor.Finding
	}
	got := ask("doctor -o json --redis " + redis)
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != 0 || answer.Worst != doctor.Warn || answer.Counts[doctor.OK] < 5 {
		t.Errorf("pawl doctor -o json = %+v, %v", got, err)
	}
	if got := pawlWith(t, "", map[string]string{"PAWL_NATS_URL": url}, "doctor"); got.code != 1 || !strings.Contains(packed(got), "fail redis redis.addr is not set, and nats.url is: no worker starts so →") {
		t.Errorf("with one of the two addresses, pawl doctor = %+v", got)
	}
	if got := pawlRun(t, "doctor", "-s", "nats://127.0.0.1:1"); got.code != 1 || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("without a server, pawl doctor = %+v", got)
	}
}
