package natsqueue

import (
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	rights := []string{"pawl.history.*.*", "pawl.effect.>", "$JS.API.STREAM.INFO.PAWL_START"}
	for _, tt := range []struct {
		name               string
		allow, deny, lacks []string
	}{
		{"nothing is said", nil, nil, nil},
		{"all of it", []string{"pawl.>", "$JS.API.>"}, nil, nil},
		{"as it is", rights, nil, nil},
		{"one of them", []string{"pawl.effect.>"}, nil, []string{rights[0], rights[2]}},
		{"too narrow", []string{"pawl.history.0.*", "pawl.effect.*", "*.*.*.*.*"}, nil, []string{rights[0], rights[1]}},
		{"denied", nil, []string{"pawl.history.0.x", "$JS.API.STREAM.INFO.*"}, []string{rights[0], rights[2]}},
		{"denied what it does not need", []string{">"}, []string{"pawl.start.>", "$JS.API.STREAM.INFO", "pawl.effect"}, nil},
	} {
		if got := Lacks(rights, tt.allow, tt.deny); !slices.Equal(got, tt.lacks) {
			t.Errorf("%s: lacks %v, want %v", tt.name, got, tt.lacks)
		}
	}
}

// The rights of a worker are enough to sweep a partition with more runs than
// one read may name.
func TestWorkerMaySweepALargePartition(t *testing.T) {
	t.Parallel()
	rights := WorkerRights(DefaultPrefix)
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, {Username: "worker", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: rights.Publish},
			Subscribe: &server.SubjectPermission{Allow: append([]string{"_INBOX.>"}, rights.Subscribe...)},
		}}}
	})
	provisioned(t, n.Conn(nats.UserInfo("admin", "p")), Topology{})
	nc := n.Conn(nats.UserInfo("worker", "p"))
	f := &fleet{t: t, nc: nc, q: opened(t, nc, brisk())}
	f.append1(next(t, "r", nil, "w"))
	var swept []string
	f.q.Log.sweepMany(t.Context(), queue.Partition(queue.Token("r")), func(r *statemachine.Stored, err error) bool {
		if err != nil {
			t.Error(err)
			return false
		}
		swept = append(swept, r.Run)
		return true
	})
	if !slices.Equal(swept, []string{"r"}) {
		t.Errorf("swept %v", swept)
	}
}
