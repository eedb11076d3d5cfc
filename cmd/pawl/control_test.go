package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/statemachine"
)

// A fleet is steered through its control API, and says what came of it.
func TestSteeringAFleet(t *testing.T) {
	t.Parallel()
	url := fleet(t)
	const parked = `{"steps":[{"do":"file.append"}]}`
	steps := []struct {
		name, args     string
		code           int
		stdout, stderr string // stdout as it is, "…" at its end: as it begins; stderr that it has
	}{
		{"a start that is new", "run start kitchensink --id a --input " + parked, 0, "a\n", ""},
		{"the same start", "run start kitchensink --id a --input " + parked, 0, "a\n", "run a exists, by the same start: it is "},
		{"another input", "run start kitchensink --id a --input {}", 1, "", `pawl: run "a" exists, with another input (choose another with --id)` + "\n"},
		{"a start that is refused", "run start nosuch --id n", 1, "", "pawl: start run n: the start was refused: unknown_machine: "},
		{"a start for programs", `run start kitchensink --id b --input {"steps":[]} -o json`, 0, "{\n  \"run\": \"b\",\n  \"outcome\": \"created\",\n…", ""},
		{"parked", "run wait a b", 5, "…", ""},
		{"why it is parked", "run explain a", 0, "Run a, kitchensink version 4: parked in state perform since …", ""},
		{"why it is parked, for programs", "run explain a -o json", 0, "{\n  \"run\": \"a\",\n  \"machine\": \"kitchensink\",\n  \"version\": 4,\n  \"state\": \"perform\",\n  \"status\": \"parked\",\n…", ""},
		{"why a run that is none does not move", "run explain nosuch", 1, "", `pawl: run "nosuch": not found, and neither a start nor a letter of it (is it the right fleet? -s URL, --prefix)` + "\n"},
		{"no result", "run result a", 5, "", "pawl: run a is parked in state perform: "},
		{"a result", "run result b", 0, "{\n  \"steps\": [],\n…", ""},
		{"pause", "run pause a --reason later --by jo", 0, "a pause applied: paused at revision 3\n", ""},
		{"who paused it", "run show a", 0, "Run       a\n…", ""},
		{"a signal", `run signal a hello {"a":1} --id s1`, 0, "a signal hello applied: paused at revision 4\n", ""},
		{"the same signal", `run signal a hello {"a":1} --id s1`, 0, "a signal hello duplicate: paused at revision 4\n", ""},
		{"a signal to nobody", "run signal nosuch hello", 1, "", `pawl: run "nosuch": not found (is it the right fleet? -s URL, --prefix)` + "\n"},
		{"resume", "run resume a", 0, "a resume applied: parked at revision 5\n", ""},
		{"an effect that is none is not tried anew", "run retry a --effect nosuch", 1, "", `pawl: run "a" has given up no effect "nosuch"` + "\n"},
		{"nor does it come to anything", "run resolve a --effect nosuch {}", 1, "", `pawl: run "a" has given up no effect "nosuch"` + "\n"},
		{"cancel some", "run cancel a nosuch b --id c1", 1, "a cancel applied: cancelled at revision 6\n",
			`pawl: run "nosuch": not found (is it the right fleet? -s URL, --prefix)` + "\n" + `pawl: run "b" has ended (succeeded): cancel was not applied` + "\n"},
		{"the same again", "run cancel a --id c1", 0, "a cancel duplicate: cancelled at revision 6\n", ""},
		{"once more", "run cancel a", 1, "", `pawl: run "a" has ended (cancelled by unverified:jo): cancel was not applied` + "\n"},
		{"at once", "run terminate a --reason gone", 1, "", `pawl: run "a" has ended (cancelled by unverified:jo): terminate was not applied` + "\n"},
		{"cancelled", "run watch a", 4, "…", "pawl: run a was cancelled in state perform: cancelled (by "},
		{"some, for programs", "run retry nosuch -o json", 1, "[\n{\"id\":\"nosuch\",\"outcome\":\"\",\"status\":\"\",\"revision\":0,\"error\":\"run \\\"nosuch\\\": not found\"}\n]\n", `pawl: run "nosuch": not found`},
		{"the machines", "machine ls", 0, "MACHINE      VERSIONS  HASH                    REGISTERED  RUNS\n…", ""},
		{"a machine", "machine show kitchensink", 0, "Machine  kitchensink\n…", ""},
		{"a machine that is none", "machine show nosuch", 1, "", `pawl: machine "nosuch": not found: no worker has registered it (see pawl machine ls)` + "\n"},
		{"nothing is held up", "effect ls", 0, "", "nothing is held up\n"},
		{"an effect type is paused", "effect pause http.post --reason later --by jo", 0, "effect http.post is held up\n", ""},
		{"a state is paused", "state pause kitchensink perform", 0, "state perform of machine kitchensink is held up\n", ""},
		{"a key is closed", "effect pause http.post --key api.example.com --for 1h", 0, `key "api.example.com" of effect http.post is held up until …`, ""},
		{"what is held up", "effect ls", 0, "HELD UP                                    SINCE  UNTIL          BY             REASON\neffect http.post …", ""},
		{"a key is opened", "effect resume http.post --key api.example.com", 0, `key "api.example.com" of effect http.post goes on` + "\n", ""},
		{"a state goes on", "state resume kitchensink perform", 0, "state perform of machine kitchensink goes on\n", ""},
		{"an effect type goes on", "effect resume http.post -o json", 0, "{\n  \"kind\": \"effect\",\n  \"effect\": \"http.post\",\n  \"held\": false,\n…", ""},
		{"a type that is none", "effect pause http.posst", 1, "", "pawl: effect type http.posst: not found"},
		{"no name of a type", "effect pause Http", 1, "", `pawl: "Http" is no effect type`},
		{"a state that no machine has", "state pause kitchensink preform", 1, "", `pawl: machine kitchensink has no state "preform": it has ask, await, book, caught, child, done, `},
		{"a state of no machine", "state pause nosuch perform", 1, "", "pawl: machine nosuch: not found"},
		{"a key without a time", "effect pause http.post --key k", 1, "", "pawl: for, how long the key is to be closed, is 0s"},
		{"a time without a key", "effect pause http.post --for 1m", 2, "", "pawl: --for is for a key"},
		{"the workers", "worker ls", 0, "WORKER  …", ""},
		{"completion", "__complete machine show", 0, "…", ""},
	}
	for _, s := range steps {
		got := pawlWith(t, "", map[string]string{"PAWL_NATS_URL": url, "USER": "jo"}, strings.Fields(s.args)...)
		begins, open := strings.CutSuffix(s.stdout, "…")
		if got.code != s.code || got.stdout != s.stdout && !(open && strings.HasPrefix(got.stdout, begins)) || !strings.Contains(got.stderr, s.stderr) {
			t.Errorf("%s: pawl %s = %d\n%s\n%s\nwant %d, %q, %q", s.name, s.args, got.code, got.stdout, got.stderr, s.code, s.stdout, s.stderr)
		}
	}
	if got := pawlRun(t, "-s", url, "machine", "show", "kitchensink"); !strings.Contains(got.stdout, "IN DOUBT") || !strings.Contains(got.stdout, "1s ×2 to 1m  repeat") {
		t.Errorf("the policies of its effects are not shown: %+v", got)
	}
	if got := pawlRun(t, "-s", url, "run", "history", "a"); !strings.Contains(got.stdout, " pause by unverified:jo (later) ") || !strings.Contains(got.stdout, " resume by ") {
		t.Errorf("the history does not say who did what, and why:\n%s", got.stdout)
	}
	natstest.Await(t, "the runs to be counted", func() bool {
		got := pawlRun(t, "-s", url, "machine", "show", "kitchensink")
		return strings.HasPrefix(got.stdout, "Machine  kitchensink\nRuns     2 succeeded, 1 cancelled\n")
	})
}

// With no worker alive, changes are stored all the same, and the tool says so.
func TestSteeringWithoutAWorker(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	if got := pawlRun(t, "-s", url, "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	begin(t, url, "a run/1")
	seed(t, url, "ended")
	const nobody = "accepted: no worker is alive: the first that starts carries it out\n"
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"cancel", "a run/1", "--id", "c1", "--reason", "over", "--by", "jo"}, 0, "a run/1 cancel accepted: running at revision 1\n", nobody},
		{[]string{"signal", "a run/1", "approve", `{"ok": true}`, "--id", "s1"}, 0, "a run/1 signal approve accepted: running at revision 1\n", nobody},
		{[]string{"pause", "ended"}, 1, "", `pawl: run "ended" has ended (succeeded): pause was not applied` + "\n"},
		{[]string{"retry", "nosuch"}, 1, "", `pawl: run "nosuch": not found (is it the right fleet? -s URL, --prefix)` + "\n"},
		{[]string{"start", "kitchensink", "--id", "new"}, 0, "new\n", nobody + "accepted: no worker has registered machine kitchensink\n"},
		{[]string{"wait", "new", "--timeout", "100ms"}, 1, "", `pawl: run "new": not found, and no worker took its start within 100ms (is it the right fleet? -s URL, --prefix; was it refused? dlq-replayer ls)` + "\n"},
		{[]string{"wait", "a run/1", "ended", "--for", "3s"}, 6, "ended succeeded in state done\n", "pawl: run a run/1 has not ended (after 3s)\n"},
		{[]string{"watch", "a run/1", "--for", "3s"}, 6, "      0s     1  start                           · → perform  ⇒ noop (queued)\n", "pawl: run a run/1 is running in state perform (after 3s)\n"},
		{[]string{"result", "a run/1"}, 1, "", "pawl: run a run/1 has no result yet, it is running in state perform (pawl run result --wait a run/1)\n"},
		{[]string{"ls", "--from", "index"}, 1, "", "pawl: no worker answers (only workers read the index; --from history needs none)\n"},
		{[]string{"ls", "--status", "parked"}, 0, "", "no worker answers; reading the last record of every run instead\nno runs\n"},
		{[]string{"ls", "--from", "history", "--status", "running", "-o", "json"}, 0, "", ""},
	}
	for _, tt := range tests {
		got := pawlRun(t, append([]string{"-s", url, "run"}, tt.args...)...)
		if got.code != tt.code || tt.stdout != "" && got.stdout != tt.stdout || got.stderr != tt.stderr {
			t.Errorf("pawl run %v = %d\n%s\n%s\nwant %d, %q, %q", tt.args, got.code, got.stdout, got.stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
	js, err := jetstream.New(conn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string][2]string{
		"PAWL_EVENTS": {"pawl.event.9.~YSBydW4vMQ", `{"by":"unverified:jo","reason":"over"}`},
		"PAWL_SIGNAL": {"pawl.signal.~YSBydW4vMQ.approve", `{"ok":true}`},
	} {
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), 1)
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
		if m.Subject != want[0] || string(m.Data) != want[1] {
			t.Errorf("%s has %s %v %s", stream, m.Subject, m.Header, m.Data)
		}
	}
	if got := pawlRun(t, "-s", url, "--timeout", "1s", "worker", "ls"); got.code != 1 || !strings.Contains(got.stderr, "no worker answers") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("pawl worker ls = %+v", got)
	}
	if got := pawlRun(t, "-s", url, "machine", "ls"); got.code != 0 || !strings.Contains(got.stderr, "no worker has registered any yet") {
		t.Errorf("pawl machine ls = %+v", got)
	}
}

// answer has somebody answer a verb of the control API.
func answer(t *testing.T, nc *nats.Conn, subject string, with func(q api.RunsQuery) (any, *api.Error)) {
	t.Helper()
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		var q api.RunsQuery
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Error(err)
		}
		a, e := with(q)
		out := nats.NewMsg(m.Reply)
		if e != nil {
			out.Header.Set(api.HeaderCode, fmt.Sprint(e.Code))
			out.Header.Set(api.HeaderError, e.Message)
			a = e
		}
		out.Data, _ = json.Marshal(a)
		if err := nc.PublishMsg(out); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// A list comes page by page, and says what it lacks.
func TestListOfAnIndex(t *testing.T) {
	t.Parallel()
	url := natstest.One(t).URL()
	if got := pawlRun(t, "-s", url, "provision"); got.code != 0 {
		t.Fatalf("pawl provision = %+v", got)
	}
	const runs = 1500
	pages := func(q api.RunsQuery) (any, *api.Error) {
		from := 0
		if q.Cursor != "" {
			if _, err := fmt.Sscan(q.Cursor, &from); err != nil {
				return nil, &api.Error{Code: 400, Class: api.ClassCursor, Message: "no cursor"}
			}
		}
		l := api.Listing{Complete: false, Rebuilt: 0.637}
		for i := from; i < min(from+q.Limit, runs); i++ {
			l.Runs = append(l.Runs, api.Row{ID: fmt.Sprintf("r-%d", i), Machine: "report", Version: 1, State: "done", Status: statemachine.StatusSucceeded})
		}
		if from+q.Limit < runs {
			l.Next = fmt.Sprint(from + q.Limit)
		}
		return l, nil
	}
	nc := conn(t, url)
	answer(t, nc, "pawl.api.view.runs.list", pages)
	answer(t, nc, "pawl.api.as.jo.view.runs.list", func(q api.RunsQuery) (any, *api.Error) {
		if q.Source == api.SourceAny {
			return nil, &api.Error{Code: 503, Class: api.ClassUnavailable, Message: "redis is away"}
		}
		return nil, &api.Error{Code: 403, Class: api.ClassForbidden, Message: "runs.list is not allowed"}
	})
	const lacks = "the list is incomplete: 63% of the runs are found again after a loss of Redis; --from history is complete\n"
	tests := []struct {
		args   string
		lines  int
		stderr string
	}{
		{"--limit 3", 4, lacks + "the first 3; --all shows all\n"},
		{"--all", runs + 1, lacks},
		{"--limit 1200 -o json", 1202, lacks + "the first 1200; --all shows all\n"},
		{"--as jo", 0, "the worker's stores are away: redis is away; reading the last record of every run instead\nno runs\n"},
		{"--as jo --from index", 0, "pawl: runs.list is not allowed (it needs another role; sign in as somebody who may)\n"},
	}
	for _, tt := range tests {
		got := pawlRun(t, append([]string{"-s", url, "run", "ls"}, strings.Fields(tt.args)...)...)
		if strings.Count(got.stdout, "\n") != tt.lines || got.stderr != tt.stderr {
			t.Errorf("pawl run ls %s = %d, %d lines, %q, want %d, %q", tt.args, got.code, strings.Count(got.stdout, "\n"), got.stderr, tt.lines, tt.stderr)
		}
	}
	// A worker that takes the question and dies with it.
	if _, err := nc.Subscribe("pawl.api.as.sam.view.runs.list", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := pawlRun(t, "-s", url, "--timeout", "300ms", "run", "ls", "--as", "sam"); got.code != 0 || got.stderr != "no worker answers within 300ms; reading the last record of every run instead\nno runs\n" {
		t.Errorf("pawl run ls = %+v", got)
	}
}
