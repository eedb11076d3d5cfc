package pawl_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// A worker needs no more rights than it is said to need, and pawl doctor with
// those finds none missing; with one less it fails.
func TestWorkerHasTheRightsItNeeds(t *testing.T) {
	t.Parallel()
	rights := natsqueue.WorkerRights("pawl")
	told := append(rights.Publish[:len(rights.Publish):len(rights.Publish)], "$SYS.REQ.USER.INFO")
	user := func(name string, publish []string) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: append([]string{"_INBOX.>"}, rights.Subscribe...)},
		}}
	}
	n, r := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, user("worker", rights.Publish), user("told", told), user("less", told[1:])}
	}), redistest.Start(t, redistest.Mini)
	f := join(t, n.URL(), true, nats.UserInfo("admin", "p"))
	f.env = map[string]string{"PAWL_NATS_URL": n.URL(), "PAWL_REDIS_ADDR": r.Addr, "PAWL_NATS_USERNAME": "worker", "PAWL_NATS_PASSWORD": "p"}
	startProcess(t, f.env)
	input, _ := sample("report")
	f.start("report", "r", input)
	f.start("kitchensink", "k", `{"steps":[{"do":"noop","place":"queued"},{"do":"http.post","input":{"url":"http://127.0.0.1:1/"}}]}`)
	f.start("report", "bad", `{"to":5}`)
	f.ended("r")
	f.letters(1)
	f.reaches("k", func(r *statemachine.Stored) bool { return len(r.Pending) == 1 && r.Pending[0].Attempt == 2 })

	dir, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]struct {
		code int
		text string
	}{
		"worker": {0, "unknown  nats rights"},
		"told":   {0, "ok       nats rights"},
		"less":   {1, "it may not publish to pawl.history.*.*"},
	} {
		c := exec.CommandContext(t.Context(), dir+"/pawl", "doctor", "--timeout", "1s", "--redis", r.Addr)
		c.Dir = t.TempDir()
		c.Env = []string{"HOME=" + c.Dir, "NATS_URL=" + n.URL(), "NATS_USER=" + who, "NATS_PASSWORD=p"}
		out, _ := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != want.code || !strings.Contains(strings.ReplaceAll(string(out), "  ", " "), strings.ReplaceAll(want.text, "  ", " ")) {
			t.Errorf("as %s, pawl doctor = %d, want %d and %q\n%s", who, code, want.code, want.text, out)
		}
	}
}
