package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/statemachine"
)

// Classes come from handlers, and so from anywhere: they must not make series
// without end, or of what is no word.
func TestClassesOfLettersAreBounded(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, new(statemachine.Catalog))
	m.letter("effect", "timeout")
	for i := range 1000 {
		m.letter("effect", fmt.Sprintf("class_%d", i))
		m.letter("effect", fmt.Sprintf("order 4412-%d: card declined", i))
	}
	m.letter("effect", "timeout")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "pawl_letters_total" {
			for _, one := range f.GetMetric() {
				got[one.GetLabel()[0].GetValue()] = one.GetCounter().GetValue()
			}
		}
	}
	if len(got) != 65 || got["timeout"] != 2 || got["class_0"] != 1 || got["other"] != 2000-63 {
		t.Errorf("%d classes, timeout %v, class_0 %v, other %v", len(got), got["timeout"], got["class_0"], got["other"])
	}
}

// What is counted with every record and call costs no memory, and is found
// without label values.
func TestHotMetricsAllocateNothing(t *testing.T) {
	type data struct{}
	noop := statemachine.Effect[struct{}, struct{}]("noop")
	machine := statemachine.New[data]("m", 1)
	machine.State("work", statemachine.Call(noop, func(*data) struct{} { return struct{}{} }, func(*data, struct{}) {}))
	machine.Succeed("done")
	catalog := new(statemachine.Catalog).Add(machine)
	m := newMetrics(prometheus.NewRegistry(), catalog)
	now := time.Now()
	ended := &statemachine.Record{Machine: "m", To: "done", Status: statemachine.StatusSucceeded, Started: now.Add(-time.Second), At: now}
	call := &statemachine.Pending{Effect: "noop", Place: statemachine.Queued}
	if m.transitions[entered{"m", "done"}] == nil || m.runs["m"] == nil {
		t.Fatal("the catalogue's machines are not resolved")
	}
	if n := testing.AllocsPerRun(100, func() {
		m.moved(ended)
		m.call(call, callOK)
		m.claimed(1, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
