package pawl_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/archive"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// A run that ended long enough ago is a tombstone: its records and blobs are
// gone, the same start is still a duplicate and another one a conflict. A run
// that has not ended is left alone, however old.
func TestArchivedRunIsATombstone(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	startProcess(t, f.env)
	big := `{"steps":[{"do":"noop","input":{"pad":"` + strings.Repeat("x", 20_000) + `"},"repeat":2}]}`
	f.start("kitchensink", "old", big)
	f.start("kitchensink", "stuck", `{"steps":[{"do":"http.post","input":{"url":"http://example.com/"}}]}`) // not allowed: parked
	ended := f.ended("old")
	f.reaches("stuck", func(r *statemachine.Stored) bool { return r.Status == statemachine.StatusParked })

	a := archive.New(archive.Config{After: time.Millisecond}, f.queue.Archive())
	for _, run := range []string{"old", "stuck"} {
		if _, err := a.Pass(t.Context(), queue.Partition(queue.Token(run))); err != nil {
			t.Fatal(err)
		}
	}
	tomb := f.last("old")
	if tomb.Tomb == nil || tomb.Tomb.Revs != ended.Rev || tomb.Prev != ended.Seq || tomb.Status != statemachine.StatusSucceeded {
		t.Fatalf("the last record is no tombstone of revision %d: %s", ended.Rev, describe(tomb))
	}
	n := 0
	for _, err := range f.queue.Log.Read(t.Context(), "old", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d records are left, want the tombstone alone", n)
	}
	s, err := f.js.Stream(t.Context(), "PAWL_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if m := s.CachedInfo().State.Msgs; m != 0 {
		t.Errorf("%d blobs are left", m)
	}
	if r := f.last("stuck"); r.Tomb != nil {
		t.Error("a parked run was archived")
	}

	f.start("kitchensink", "old", big)
	f.start("kitchensink", "old", oneNoop)
	letters := f.letters(2) // of the parked run, and of the second start
	f.drained("PAWL_START")
	if l := letters[1]; l.Class != "id_conflict" {
		t.Errorf("letter %+v, want an id_conflict", l)
	}
	if r := f.last("old"); r.Seq != tomb.Seq {
		t.Errorf("the tombstone was followed by a record: %s", describe(r))
	}
}
