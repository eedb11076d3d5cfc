package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/queue"
)

func told(run, effect string, first int, item string) queue.Progress {
	return queue.Progress{Run: run, Effect: "model.chat", ID: effect, Attempt: 1, At: time.Unix(1, 0).UTC(), First: first, Items: []json.RawMessage{json.RawMessage(item)}}
}

// followed is what is read of a run until so many items came, as
// "effect:first[items]", and the sequence of the last message.
func followed(t *testing.T, p *Progress, run string, after uint64, items int) (string, uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []string
	for v, err := range p.Follow(ctx, run, after) {
		if err != nil {
			t.Fatalf("after %v: %v", out, err)
		}
		out = append(out, fmt.Sprintf("%s:%d%s", v.ID, v.First, v.Items))
		if items -= len(v.Items); items <= 0 {
			return strings.Join(out, " "), v.Seq
		}
	}
	return strings.Join(out, " "), 0
}

// TestProgressIsFollowedFromWhereOneWas: what was told comes in its order, by
// attempt, and who was away goes on after the last that it saw.
func TestProgressIsFollowedFromWhereOneWas(t *testing.T) {
	t.Parallel()
	replicas(t, func(t *testing.T, f *fleet) {
		p := f.q.Progress
		if last, err := p.Last(t.Context(), "r"); last != 0 || err != nil {
			t.Errorf("of a run of which nothing was told: %d, %v", last, err)
		}
		for i := range 3 {
			p.Tell(told("r", "a", i, fmt.Sprint(i)))
			p.Tell(told("r", "b", i, fmt.Sprint(10+i)))
			p.Tell(told("other", "c", i, "99"))
		}
		p.Tell(told("r", "a", 5, "5")) // 3 and 4 were lost
		p.Flush()
		got, seq := followed(t, p, "r", 0, 7)
		if want := "a:0[0 1 2] b:0[10 11 12] a:5[5]"; got != want {
			t.Errorf("followed %s, want %s", got, want)
		}
		if last, err := p.Last(t.Context(), "r"); last != seq || err != nil {
			t.Errorf("the last is %d, %v, want %d", last, err, seq)
		}
		// Whoever performs an effect may tell.
		if err := f.q.link.nc.Publish("pawl.progress.r", []byte(`no progress`)); err != nil {
			t.Fatal(err)
		}
		if err := f.q.link.nc.Publish("pawl.progress.r", []byte(`{"items":["by hand"]}`)); err != nil {
			t.Fatal(err)
		}
		if got, _ := followed(t, p, "r", seq, 1); got != `:0["by hand"]` {
			t.Errorf("after %d comes %s", seq, got)
		}
	})
}

// TestProgressThatIsTooMuchIsLost: what waits to be sent is bounded, and the
// place where items are missing can be seen.
func TestProgressThatIsTooMuchIsLost(t *testing.T) {
	t.Parallel()
	f := one(t)
	p := newProgress(f.q.link)
	p.begin.Do(func() {}) // nobody sends
	item := `"` + strings.Repeat("x", 60<<10) + `"`
	n := 0
	for p.Tell(told("r", "a", n, item)) {
		if n++; n > 1000 {
			t.Fatal("no bound")
		}
	}
	if got := n * len(item); got > progressMost || got < progressMost-len(item) {
		t.Errorf("%d bytes wait", got)
	}
	p.sendAll()
	if !p.Tell(told("r", "a", n+1, `"after"`)) {
		t.Error("there is room again, and it was lost")
	}
	p.close()
	p.sendAll()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	next := 0
	for v, err := range p.Follow(ctx, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if size := sizeOf(v.Items); size > progressSize {
			t.Errorf("a message of %d bytes", size)
		}
		if string(v.Items[0]) == `"after"` {
			if v.First != n+1 || next != n {
				t.Errorf("item %d comes after %d", v.First, next-1)
			}
			return
		}
		if v.First != next {
			t.Errorf("item %d comes where %d was to", v.First, next)
		}
		next += len(v.Items)
	}
}
