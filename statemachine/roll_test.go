package statemachine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// diary is the data of a machine that never ends.
type diary struct {
	Entries sm.Log[string] `json:"entries"`
	Days    int            `json:"days,omitempty"`
	Pages   int            `json:"pages,omitempty"`
}

func (d *diary) day() string { return "today" }

func (d *diary) told(text string) {
	d.Days++
	if text != "" {
		d.Entries.Append(text)
	}
}

func (d *diary) turn()        { d.Pages++ }
func (d *diary) isFull() bool { return d.Days%10 == 9 }

// diaries rolls by itself, or by its own every tenth day.
func diaries(pages bool) *sm.Definition {
	m := sm.New[diary]("diary", 1)
	wait := m.State("wait", sm.Call(tick, (*diary).day, (*diary).told)).Visits(1_000_000, "end")
	if pages {
		wait.When((*diary).isFull, "page")
	}
	wait.Then("wait")
	if pages {
		m.State("page", sm.Roll((*diary).turn)).Visits(1_000_000, "end").Then("wait")
	}
	m.Succeed("end")
	return m.Definitions()[0]
}

// write has a run of n records, each with the sequence 10 times its revision, and
// shows every one to look.
func write(t *testing.T, d *sm.Definition, n int, text func(rev int) string, look func(r *sm.Stored)) *sm.Stored {
	t.Helper()
	var r *sm.Stored
	for rev := 1; rev <= n; rev++ {
		e := sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, Body: json.RawMessage(`{}`)}
		if rev > 1 {
			body, err := json.Marshal(text(rev))
			if err != nil {
				t.Fatal(err)
			}
			e = sm.Event{Kind: sm.EventResult, Effect: r.Pending[0].ID, Body: body}
		}
		e.At = t0.Add(time.Duration(rev) * time.Second)
		f := d.Begin("r1", r, sm.Env{Now: e.At, Place: inline})
		if r != nil && r.NeedsSeal("entries") {
			f.SealLog("entries", sm.BlobHash([]byte(e.At.String())), r.Logs["entries"].Count)
		}
		if o, err := f.Apply(e); err != nil || o != sm.Applied {
			t.Fatalf("Apply = %v, %v", o, err)
		}
		s, err := f.Seal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := sm.Decode(s.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if again.Rolls() || rev%10 == 0 {
			if err := d.Refold(r, again, nil); err != nil {
				t.Fatal(err)
			}
		}
		r = &sm.Stored{Record: again, Seq: uint64(10 * rev), Bytes: s.Bytes}
		look(r)
	}
	return r
}

// A run rolls by itself when its epoch has 1,000 records: nothing of it is
// another, and what is older than the epoch before may go, except items of logs
// that no chunk holds.
func TestARunRollsByItself(t *testing.T) {
	t.Parallel()
	seldom := func(rev int) string {
		if rev == 5 || rev == 1500 {
			return "x"
		}
		return ""
	}
	added := map[int]int{} // items and the revisions that added them
	var most, spare uint64
	last := write(t, diaries(false), 4200, seldom, func(r *sm.Stored) {
		if want := int(r.Rev-1) / sm.MaxEpoch; r.Epoch != want || r.Rolls() != (r.Rev%sm.MaxEpoch == 1 && r.Rev > 1) {
			t.Fatalf("revision %d: epoch %d, rolls %t", r.Rev, r.Epoch, r.Rolls())
		}
		if want := map[bool]int{true: 6, false: 1}[r.Epoch > 0]; r.V != want {
			t.Fatalf("revision %d: version %d, want %d", r.Rev, r.V, want)
		}
		for range r.Adds["entries"] {
			added[len(added)] = int(r.Rev)
		}
		if r.Spare() < spare || r.Spare() >= r.Seq {
			t.Fatalf("revision %d: %d is spared after %d", r.Rev, r.Spare(), spare)
		}
		spare = r.Spare()
		most = max(most, r.Rev-spare/10)
		ref := r.Logs["entries"]
		for i := ref.Sealed; i < ref.Count; i++ {
			if uint64(10*added[i]) <= spare || uint64(10*added[i]) <= ref.After {
				t.Fatalf("revision %d: item %d was added by revision %d: %d is spared, %+v", r.Rev, i, added[i], spare, ref)
			}
		}
		if stays := r.Rev - spare/10; spare > 0 && stays <= sm.MaxEpoch {
			t.Fatalf("revision %d: %d records stay", r.Rev, stays)
		}
	})
	if want := (sm.Epoch{Rev: 4001, Next: sm.Mark{Rev: 4001, After: 40_000}, Keep: sm.Mark{Rev: 3001, After: 30_000}}); *last.Roll != want {
		t.Errorf("the last epoch is %+v, want %+v", *last.Roll, want)
	}
	if spare != 30_000 || most > 2*sm.MaxEpoch+1 {
		t.Errorf("%d is spared, and at most %d records stayed", spare, most)
	}
}

// A machine rolls where it says so. At least 1,000 records stay even if it does
// so often.
func TestRollOfAMachine(t *testing.T) {
	t.Parallel()
	d := diaries(true)
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	var most uint64
	last := write(t, d, 3500, func(int) string { return "" }, func(r *sm.Stored) {
		if want := int(r.Rev) / 10; r.Epoch != want || r.Rolls() != (r.Rev%10 == 0) {
			t.Fatalf("revision %d: epoch %d, rolls %t", r.Rev, r.Epoch, r.Rolls())
		}
		if r.Spare() > 0 && r.Rev-r.Spare()/10 < sm.MaxEpoch {
			t.Fatalf("revision %d: %d records stay", r.Rev, r.Rev-r.Spare()/10)
		}
		most = max(most, r.Rev-r.Spare()/10)
	})
	if !strings.Contains(string(last.Data), `"pages":350`) || most > 2*sm.MaxEpoch+20 {
		t.Errorf("data %s; at most %d records stayed", last.Data, most)
	}
	if got := d.Diagram(); !strings.Contains(got, "page: rolls") {
		t.Errorf("the diagram does not say that the machine rolls:\n%s", got)
	}
}

// A fault of the callback is one of the event, and the run did not roll.
func TestRollThatFails(t *testing.T) {
	t.Parallel()
	m := sm.New[diary]("diary", 1)
	m.State("page", sm.Roll(func(*diary) { panic("no more pages") }))
	m.Succeed("end")
	f := m.Definitions()[0].Begin("r1", nil, sm.Env{Now: t0})
	_, err := f.Apply(sm.Event{ID: sm.StartEventID, Kind: sm.EventStart, At: t0, Body: json.RawMessage(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "no more pages") || sm.ClassOf(err) != sm.ClassPanic {
		t.Errorf("Apply = %v", err)
	}
}

// A state that rolls waits for nothing, and is no branch.
func TestRollIsChecked(t *testing.T) {
	t.Parallel()
	m := sm.New[diary]("diary", 1)
	m.State("page", sm.Roll((*diary).turn)).Within(time.Hour, "end")
	m.State("all", sm.All(sm.Branch("page", sm.Roll((*diary).turn))))
	m.Succeed("end")
	err := m.Definitions()[0].Check()
	for _, want := range []string{`state "page": Within in a state that waits for nothing`, `state "all": branch "page": rolls; that is for a state of its own`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v, want %s", err, want)
		}
	}
}

// rolledRecords are the first record of an epoch, and one after which older
// records may go.
func rolledRecords(t *testing.T) (rolled, kept *sm.Stored) {
	t.Helper()
	rolled = write(t, diaries(true), 10, func(int) string { return "für \"Anna\"" }, func(*sm.Stored) {})
	kept = write(t, diaries(false), 2001, func(int) string { return "" }, func(*sm.Stored) {})
	return rolled, kept
}
