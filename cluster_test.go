package pawl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/natsqueue"
)

// A fleet on three nodes: the leaders of its streams go down under load, one
// after the other, and a worker is killed on top of it. All runs end, and no
// call is repeated that was not in flight at the kill.
func TestFleetOnThreeNodes(t *testing.T) {
	c := natstest.Three(t)
	nc := c.Conn()
	wait := 1500 * time.Millisecond
	topology := natsqueue.Topology{Replicas: 3, Effects: catalog(t, t.TempDir()).Effects(), AckWait: wait, EffectAckWait: wait}
	eventually(t, 30*time.Second, "the streams to be made", func() bool { _, err := natsqueue.Provision(t.Context(), nc, topology); return err == nil })
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	f := join(t, c.URL(), false)
	f.env = map[string]string{"PAWL_NATS_URL": c.URL(), "PAWL_REDIS_ADDR": m.Addr()}
	k := newKillCheck(t)
	few := map[string]string{"PAWL_WORKER_INLINE_MAX": "6", "PAWL_WORKER_QUEUED_MAX": "6"} // the runs outlast the faults
	startProcess(t, env(f.env, few))
	second := startProcess(t, env(f.env, few))
	for i := range killRuns {
		f.start("kitchensink", fmt.Sprintf("kill-%d", i), killScript(k.sink.URL, i))
	}
	for i, stream := range []string{"PAWL_HISTORY", "PAWL_START"} {
		k.progress(60 * (i + 1))
		n := c.Leader(stream)
		n.Stop()
		k.progress(60*(i+1) + 30) // two of three go on
		n.Start()
	}
	k.progress(200)
	second.kill()
	k.killed(f, 1)
	k.finish(f)
	if n := len(f.letters(0)); n != 0 {
		t.Errorf("%d letters, want none", n)
	}
}
