package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/natstest"
)

// guarded is a server with users: admin may everything, the others less, each
// in a way that looks like a server that does not answer.
func guarded(t *testing.T) *natstest.Node {
	t.Helper()
	deny := func(publish, subscribe []string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Deny: publish}, Subscribe: &server.SubjectPermission{Deny: subscribe}}
	}
	node := natstest.One(t, func(o *server.Options) {
		fleet, other := server.NewAccount("FLEET"), server.NewAccount("OTHER")
		o.Accounts = []*server.Account{fleet, other}
		user := func(name string, a *server.Account, p *server.Permissions) {
			o.Users = append(o.Users, &server.User{Username: name, Password: "secret", Account: a, Permissions: p})
		}
		user("admin", fleet, nil)
		user("nojs", fleet, deny([]string{"$JS.API.>"}, nil))
		user("nostart", fleet, deny([]string{"pawl.start.>"}, nil))
		user("noinbox", fleet, deny(nil, []string{"_INBOX.>"}))
		user("noapi", fleet, deny([]string{"pawl.api.>", "$SRV.>"}, nil))
		user("stranger", other, nil)
	})
	acc, err := node.Server().LookupAccount("FLEET")
	if err != nil {
		t.Fatal(err)
	}
	if err := acc.EnableJetStream(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := pawlRun(t, "-s", as(node, "admin"), "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	return node
}

func as(n *natstest.Node, user string) string { return "nats://" + user + ":secret@" + n.Addr() }

// What the server does not permit is said, and said at once: the time-out that
// it looks like is never waited for.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	node := guarded(t)
	at := "connect to NATS at nats://" + node.Addr() + ": "
	const signIn = "by PAWL_NATS_CREDS_FILE, PAWL_NATS_USERNAME and PAWL_NATS_PASSWORD, or a nats context)\n"
	denied := " (sign in as somebody who may, " + signIn
	tests := []struct {
		name, url, args string
		stderr          string
	}{
		{"nobody", node.URL(), "run ls", "pawl: " + at + "authorization violation, signed in as nobody (sign in " + signIn},
		{"a wrong password", "nats://bob:wrong@" + node.Addr(), "run show a", "pawl: " + at + `authorization violation, signed in as "bob" (sign in ` + signIn},
		{"no JetStream for the user", as(node, "nojs"), "run show a", `pawl: permissions violation for publish to "$JS.API.STREAM.INFO.PAWL_HISTORY", signed in as "nojs"` + denied},
		{"no JetStream for provision", as(node, "nojs"), "provision", `pawl: permissions violation for publish to "$JS.API.STREAM.INFO.PAWL_START", signed in as "nojs"` + denied},
		{"no starts for the user", as(node, "nostart"), "run start report --id r --timeout 60s", `pawl: permissions violation for publish to "pawl.start.report", signed in as "nostart"` + denied},
		{"no answers for the user", as(node, "noinbox"), "run wait a --timeout 60s", `pawl: permissions violation for subscription to "_INBOX.`},
		{"another account", as(node, "stranger"), "run show a", "(these are the credentials of another account than the fleet's)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := pawlRun(t, append([]string{"-s", tt.url}, strings.Fields(tt.args)...)...)
			if got.code != 1 || !strings.Contains(got.stderr, tt.stderr) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("pawl %s = %+v\nwant %s", tt.args, got, tt.stderr)
			}
		})
	}
}

// Who may read HISTORY and not ask the workers is told so, and gets the list
// from there; a change is not made behind the workers' back.
func TestControlAPIForbidden(t *testing.T) {
	t.Parallel()
	node := guarded(t)
	ask := func(args string) outcome {
		t.Helper()
		return pawlRun(t, append([]string{"-s", as(node, "noapi"), "--timeout", "60s"}, strings.Fields(args)...)...)
	}
	const may = `permissions violation for publish to "pawl.api.`
	if got := ask("run ls"); got.code != 0 || !strings.HasPrefix(got.stderr, "the workers may not be asked: "+may+`view.runs.list", signed in as "noapi"; reading the last record`) {
		t.Errorf("pawl run ls = %+v", got)
	}
	if got := ask("run cancel a"); got.code != 1 || !strings.HasPrefix(got.stderr, "pawl: cancel run a: "+may+"operate.runs.cancel") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("pawl run cancel = %+v", got)
	}
	if got := ask("run start report --id r"); got.code != 0 || got.stdout != "r\n" || !strings.HasPrefix(got.stderr, "accepted: the workers may not be asked for more: "+may+"produce.runs.start") {
		t.Errorf("pawl run start = %+v", got)
	}
	if got := ask("machine ls"); got.code != 0 {
		t.Errorf("pawl machine ls = %+v", got)
	}
	if got := ask("worker ls"); got.code != 1 || !strings.Contains(got.stderr, "$SRV.STATS.pawl") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("pawl worker ls = %+v", got)
	}
}

// Somebody changed a stream by hand: it is named, with what is wrong.
func TestStreamChangedByHand(t *testing.T) {
	t.Parallel()
	node := natstest.One(t)
	if got := pawlRun(t, "-s", node.URL(), "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	js, err := jetstream.New(node.Conn())
	if err != nil {
		t.Fatal(err)
	}
	change := func(change func(*jetstream.StreamConfig)) {
		t.Helper()
		s, err := js.Stream(t.Context(), "PAWL_HISTORY")
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		change(&c)
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	const hint = " (pawl provision --dry-run shows it, pawl provision puts it right)\n"
	change(func(c *jetstream.StreamConfig) { c.AllowDirect = false })
	for _, args := range [][]string{{"run", "show", "a"}, {"run", "ls"}, {"run", "wait", "a"}} {
		got := pawlRun(t, append([]string{"-s", node.URL()}, args...)...)
		if got.code != 1 || got.stderr != "pawl: stream PAWL_HISTORY was changed by hand: direct reads are off"+hint {
			t.Errorf("pawl %v = %+v", args, got)
		}
	}
	change(func(c *jetstream.StreamConfig) { c.AllowDirect, c.Subjects = true, []string{"pawl.history.>"} })
	if got := pawlRun(t, "-s", node.URL(), "run", "show", "a"); got.stderr != "pawl: stream PAWL_HISTORY was changed by hand: its subjects are pawl.history.>"+hint {
		t.Errorf("pawl run show = %+v", got)
	}
	if got := pawlRun(t, "-s", node.URL(), "provision"); got.code != 0 {
		t.Errorf("pawl provision = %+v", got)
	}
	if got := pawlRun(t, "-s", node.URL(), "run", "show", "a"); got.code != 1 || !strings.Contains(got.stderr, "not found") {
		t.Errorf("pawl run show = %+v", got)
	}
}

// speak listens, says something to whoever comes, and answers PING.
func speak(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprint(c, greeting)
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if lines.Text() == "PING" {
						fmt.Fprint(c, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestServersThatAreNone(t *testing.T) {
	t.Parallel()
	old := speak(t, `INFO {"server_id":"x","version":"2.10.4","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
	web := speak(t, "HTTP/1.1 400 Bad Request\r\n\r\n")
	silent := speak(t, "")
	tests := []struct{ name, url, stderr string }{
		{"an old server", old, "pawl: the nats-server at " + old + " is version 2.10.4, a fleet needs 2.12 or later (is it the right server? named by -s; name another with -s URL)\n"},
		{"a web server", web, "pawl: connect to NATS at " + web + ": nats: "},
		{"one that says nothing", silent, "(is it a NATS server? named by -s; name another with -s URL)\n"},
		{"a name that is none", "nats://nosuch.invalid", "lookup nosuch.invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := pawlRun(t, "-s", tt.url, "--timeout", "2s", "run", "ls")
			if got.code != 1 || !strings.Contains(got.stderr, tt.stderr) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("pawl run ls = %+v, want %q", got, tt.stderr)
			}
		})
	}
}

// A server that goes away while a run is watched is waited for.
func TestWatchOutlastsTheServer(t *testing.T) {
	t.Parallel()
	node := natstest.One(t)
	if got := pawlRun(t, "-s", node.URL(), "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	begin(t, node.URL(), "r")
	ended := make(chan int, 1)
	var stdout, stderr lockedBuffer
	go func() {
		ended <- executeTo(t.Context(), &stdout, &stderr, "-s", node.URL(), "--timeout", "1s", "run", "watch", "r")
	}()
	natstest.Await(t, "the first record", func() bool { return stdout.String() != "" })
	node.Stop()
	natstest.Await(t, "the tool to notice", func() bool { return strings.Contains(stderr.String(), "the server does not answer; trying again") })
	node.Start()
	seed(t, node.URL(), "r")
	code := <-ended
	if code != 0 || !strings.Contains(stderr.String(), "the server answers again") || strings.Count(stdout.String(), "\n") != 2 {
		t.Errorf("pawl run watch = %d\n%s\n%s", code, stdout.String(), stderr.String())
	}
}

// A full queue of starts is one clear error, with a worker or without.
func TestStartsAreFull(t *testing.T) {
	t.Parallel()
	node := natstest.One(t)
	ask := func(args ...string) outcome {
		t.Helper()
		return pawlRun(t, append([]string{"-s", node.URL()}, args...)...)
	}
	if got := ask("provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	js, err := jetstream.New(node.Conn())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "PAWL_START")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := ask("run", "start", "report", "--id", "a"); got.code != 0 {
		t.Errorf("the first start = %+v", got)
	}
	if got := ask("run", "start", "report", "--id", "b"); got.code != 1 || !strings.HasPrefix(got.stderr, "pawl: start run b: ") || !strings.Contains(got.stderr, "maximum messages exceeded") ||
		!strings.Contains(got.stderr, "nothing was started; the queue of starts has no room: pawl doctor") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("a start that finds no room = %+v", got)
	}
}
