package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a number of items, and what was done to them.
type world struct {
	mu    sync.Mutex
	did   map[int]time.Time
	noted []string
	fails func(i int) error
	bad   func(i int) Outcome
}

func items(n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// job changes n items; every tenth is refused.
func (w *world) job(n int, o Options) *Job[int] {
	w.did = map[int]time.Time{}
	return &Job[int]{
		Items: items(n),
		Name:  func(i int) string { return fmt.Sprint("item ", i) },
		Decide: func(_ context.Context, all []int) ([]Decision, error) {
			out := make([]Decision, len(all))
			for k, i := range all {
				if out[k] = (Decision{Do: true, What: "change"}); i%10 == 9 {
					out[k] = Decision{Reason: "it is a tenth"}
				}
			}
			return out, nil
		},
		Do: func(_ context.Context, i int) error {
			if w.fails != nil {
				if err := w.fails(i); err != nil {
					return err
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.did[i] = time.Now()
			if !slices.Contains(w.noted, fmt.Sprint("item ", i)) {
				return errors.New("it was not noted before")
			}
			return nil
		},
		Outcome: func(_ context.Context, all []int) ([]Outcome, error) {
			out := make([]Outcome, len(all))
			for k, i := range all {
				if out[k] = Good; w.bad != nil {
					out[k] = w.bad(i)
				}
			}
			return out, nil
		},
		Note:    func(_ context.Context, names []string) error { w.noted = append(w.noted, names...); return nil },
		Options: o,
	}
}

func TestRunAndPlanAgree(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 9, 10, 64, 65, 1000} {
		for _, limit := range []int{0, 1, 63, 64, 65} {
			w := &world{}
			plan, err := w.job(n, Options{Limit: limit}).Plan(t.Context())
			if err != nil || len(w.did) > 0 || len(w.noted) > 0 {
				t.Fatalf("a plan of %d changed %d: %v", n, len(w.did), err)
			}
			r, err := w.job(n, Options{Limit: limit}).Run(t.Context())
			want := n - n/10
			if limit > 0 {
				want = min(want, limit)
			}
			if err != nil || r.Changed != want || len(w.did) != want || r.Changed != plan.Changed || r.Refused != plan.Refused || !plan.Planned || r.Planned {
				t.Errorf("run of %d, at most %d = %+v, %v; %d changed; plan %+v", n, limit, r, err, len(w.did), plan)
			}
			if want > 0 && (r.Changes["change"].Count != want || r.Changes["change"].Examples[0] != "item 0") {
				t.Errorf("changes of %d = %+v", n, r.Changes["change"])
			}
		}
	}
}

func TestRateIsKept(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 7, 500} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{}
			began := time.Now()
			if _, err := w.job(300, Options{Rate: rate}).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n, at := range slices.SortedFunc(func(yield func(time.Time) bool) {
				for _, at := range w.did {
					yield(at)
				}
			}, time.Time.Compare) {
				// Never more than the rate allows, but for one burst of a tenth of a second.
				if most := rate*at.Sub(began).Seconds() + max(1, rate/10); float64(n) >= most+1e-6 {
					t.Fatalf("at %v a second, change %d came after %v", rate, n, at.Sub(began))
				}
			}
			if took, due := time.Since(began).Seconds(), 270/rate; took > due || took < due*0.8-2/rate {
				t.Errorf("at %v a second, 270 changes took %v s, want some %v", rate, took, due)
			}
		})
	}
}

// A rate is kept though each batch takes its time, and one takes long; but not
// made up for what a canary was waited for.
func TestRateIsCaughtUpWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, many = 500.0, 5000
		w := &world{}
		j := w.job(many, Options{Rate: rate, Canary: 5, Wait: time.Hour})
		began := time.Now()
		outcome := j.Outcome
		j.Outcome = func(ctx context.Context, all []int) ([]Outcome, error) {
			if time.Since(began) < time.Minute {
				return make([]Outcome, len(all)), nil
			}
			return outcome(ctx, all)
		}
		decide, batches := j.Decide, 0
		j.Decide = func(ctx context.Context, all []int) ([]Decision, error) {
			if batches++; batches == 9 {
				time.Sleep(2 * time.Second)
			}
			time.Sleep(200 * time.Millisecond)
			return decide(ctx, all)
		}
		if r, err := j.Run(t.Context()); err != nil || r.Changed != many*9/10 {
			t.Fatalf("%+v, %v", r, err)
		}
		first := 0
		for _, at := range w.did {
			if at.Sub(began) < time.Minute+time.Second {
				first++
			}
		}
		took, due := time.Since(began)-time.Minute, time.Duration(many*9/10/rate*float64(time.Second))
		if took < due || took > due+1500*time.Millisecond || float64(first) > rate+rate/10+5 {
			t.Errorf("at %v a second, it took %s after the canary, want some %s; %d in its first second", rate, took, due, first)
		}
	})
}

func TestCanary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := Options{Canary: 3, Wait: time.Minute}
		w := &world{}
		if r, err := w.job(100, o).Run(t.Context()); err != nil || r.Changed != 90 || r.Stopped != "" || r.Good != 3 {
			t.Errorf("a canary that goes well: %+v, %v", r, err)
		}
		w.bad = func(i int) Outcome {
			if i == 1 {
				return Bad
			}
			return Good
		}
		if r, err := w.job(100, o).Run(t.Context()); err != nil || r.Changed != 3 || r.Bad != 1 || !strings.Contains(r.Stopped, "of the first 3, 1 failed") || !r.Rest {
			t.Errorf("a canary that fails: %+v, %v", r, err)
		}
		began := time.Now()
		w.bad = func(i int) Outcome {
			if time.Since(began) < 30*time.Second {
				return Open
			}
			return Good
		}
		if r, err := w.job(100, o).Run(t.Context()); err != nil || r.Changed != 90 || time.Since(began) < 30*time.Second {
			t.Errorf("a canary that takes a while: %+v, %v", r, err)
		}
		w.bad = func(i int) Outcome { return Open }
		if r, err := w.job(100, o).Run(t.Context()); err != nil || r.Changed != 3 || r.Open != 3 || !strings.Contains(r.Stopped, "0 failed and 3 are undecided after 1m") {
			t.Errorf("a canary that is not decided: %+v, %v", r, err)
		}
	})
}

func TestStopRatio(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{bad: func(i int) Outcome {
			if i%2 == 0 {
				return Bad
			}
			return Good
		}}
		r, err := w.job(10_000, Options{StopRatio: 0.3, Rate: 100, Wait: time.Minute}).Run(t.Context())
		if err != nil || r.Stopped == "" || r.Changed >= 1000 || r.Bad < 6 {
			t.Errorf("half of them fail: %+v, %v", r, err)
		}
		w.bad = func(i int) Outcome {
			if i%10 == 0 {
				return Bad
			}
			return Good
		}
		r, err = w.job(10_000, Options{StopRatio: 0.3, Rate: 100, Wait: time.Minute}).Run(t.Context())
		if err != nil || r.Stopped != "" || r.Changed != 9000 || r.Bad == 0 || r.Open != 0 {
			t.Errorf("a tenth of them fail: %+v, %v", r, err)
		}
	})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	w := &world{fails: func(i int) error {
		if i == 5 {
			return &RefusedError{"odd"}
		}
		return nil
	}}
	if r, err := w.job(20, Options{}).Run(t.Context()); err != nil || r.Changed != 17 || r.Reasons["odd"].Count != 1 || r.Refused != 3 {
		t.Errorf("one that cannot be changed: %+v, %v", r, err)
	}
	w.fails = func(i int) error {
		if i == 100 {
			return away
		}
		return nil
	}
	r, err := w.job(1000, Options{}).Run(t.Context())
	if !errors.Is(err, away) || !strings.HasPrefix(err.Error(), "item 100: ") || r.Changed != len(w.did) || r.Changed > 200 {
		t.Errorf("a fleet that goes away: %+v, %v", r, err)
	}
	j := w.job(1000, Options{})
	j.Note = func(context.Context, []string) error { return away }
	if r, err := j.Run(t.Context()); !errors.Is(err, away) || r.Changed != 0 {
		t.Errorf("without an audit record: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.fails = func(i int) error { cancel(); return nil }
	if r, err := w.job(1000, Options{Rate: 10}).Run(ctx); !errors.Is(err, context.Canceled) || r.Changed > 64 {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	r := newReport()
	for i := range 1000 {
		r.refused(fmt.Sprint("reason ", i), fmt.Sprint(i))
	}
	if len(r.Reasons) != mostGroups+1 || r.Reasons[otherGroup].Count != 1000-mostGroups || len(r.Reasons[otherGroup].Examples) != mostExamples {
		t.Errorf("%d groups, others %+v", len(r.Reasons), r.Reasons[otherGroup])
	}
	if s := Sorted(r.Reasons); s[0] != otherGroup {
		t.Errorf("first is %q", s[0])
	}
}
