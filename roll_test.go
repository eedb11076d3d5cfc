package pawl_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/archive"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// TestARolledRun goes on after its older records were removed and Redis has
// lost everything: nothing is performed again, its log is whole, its start is a
// duplicate.
func TestARolledRun(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	script := `{"steps":[{"do":"noop","repeat":3,"input":{"n":1}},{"continue_as_new":true},{"do":"noop","repeat":2200},{"await":"go"},{"do":"noop"}]}`
	f.start("kitchensink", "long", script)
	f.reaches("long", func(r *statemachine.Stored) bool { return r.To == "await" })
	before := f.last("long")
	if before.Epoch != 3 || before.Spare() == 0 {
		t.Fatalf("epoch %d, %d is spared: %+v, logs %+v", before.Epoch, before.Spare(), before.Roll, before.Logs)
	}

	a := archive.New(archive.Config{}, f.queue.Archive())
	for range 2 {
		if _, err := a.Pass(t.Context(), queue.Partition(queue.Token("long"))); err != nil {
			t.Fatal(err)
		}
	}
	var first *statemachine.Stored
	stay := 0
	for r, err := range f.queue.Log.Read(t.Context(), "long", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if stay++; first == nil {
			first = r
		}
	}
	if first.Seq <= before.Spare() || first.Rev < 2 || stay < statemachine.MaxEpoch || stay > 2*statemachine.MaxEpoch+10 {
		t.Fatalf("%d records stay, from revision %d; up to %d is spared", stay, first.Rev, before.Spare())
	}

	if err := redis.NewClient(&redis.Options{Addr: f.redis}).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.start("kitchensink", "long", script)
	f.drained("PAWL_START")
	f.signal("long", "go", "s1", nil)
	ended := f.ended("long")
	if ended.Status != statemachine.StatusSucceeded || ended.Rev != before.Rev+2 {
		t.Fatalf("%s, revision %d after %d", ended.Status, ended.Rev, before.Rev)
	}
	answers := &api.Answers{Log: f.queue.Log, Blobs: f.queue.Blobs}
	run, err := answers.Run(t.Context(), "long", api.AllItems)
	if err != nil || len(run.Logs["results"]) != 2205 || run.Epoch == nil || run.Epoch.Number != 3 {
		t.Errorf("%d results, epoch %+v, %v", len(run.Logs["results"]), run.Epoch, err)
	}
}
