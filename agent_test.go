package pawl_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/client"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

// scriptedModel is a model that asks for two tools in its first answer, for one
// that is risky in its second, for one tool in each of those after, and has an
// answer in its last.
type scriptedModel struct {
	*httptest.Server
	turns int

	mu   sync.Mutex
	keys map[int][]string // by turn, one for each time it was asked
	came chan int         // the turn that is asked for
}

func newScriptedModel(t *testing.T, turns int) *scriptedModel {
	m := &scriptedModel{turns: turns, keys: map[int][]string{}, came: make(chan int, 100)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Role string } }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		turn := 0
		for _, s := range q.Messages {
			if s.Role == "assistant" {
				turn++
			}
		}
		m.mu.Lock()
		m.keys[turn] = append(m.keys[turn], r.Header.Get("Idempotency-Key"))
		first := len(m.keys[turn]) == 1
		m.mu.Unlock()
		m.came <- turn
		if first {
			<-r.Context().Done() // who asks first dies
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant",%s},"finish_reason":"stop"}],"usage":{"total_tokens":10}}`, m.says(turn))
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *scriptedModel) says(turn int) string {
	call := func(i int, name, arguments string) string {
		return fmt.Sprintf(`{"id":"t%d-%d","type":"function","function":{"name":%q,"arguments":%q}}`, turn, i, name, arguments)
	}
	text := func(i int) string {
		return call(i, "text__summarise", fmt.Sprintf(`{"text":"Turn %d, tool %d."}`, turn, i))
	}
	switch {
	case turn == m.turns-1:
		return `"content":"the answer"`
	case turn == 0:
		return `"content":null,"tool_calls":[` + text(0) + "," + text(1) + `]`
	case turn == 1:
		return `"content":null,"tool_calls":[` + call(0, "email__send", `{"to":"customer-17@example.com","subject":"s","body":"b"}`) + `]`
	}
	return `"content":null,"tool_calls":[` + text(0) + `]`
}

// TestAgentKilledAtEveryTurn: an agent of twelve turns, with two tools at once
// and one approval, whose worker is killed while each of its questions is being
// answered. Each question is answered once, and was asked twice only where the
// worker died, under one key; the e-mail is sent once.
func TestAgentKilledAtEveryTurn(t *testing.T) {
	t.Parallel()
	const turns = 12
	f, model := realServers(t), newScriptedModel(t, turns)
	files := t.TempDir()
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "effects: {model: {url: %q, name: scripted}, file: {dir: %q}}\n", model.URL, files), 0o600); err != nil {
		t.Fatal(err)
	}
	wait := 1500 * time.Millisecond
	if _, err := natsqueue.Provision(t.Context(), f.nc, natsqueue.Topology{Effects: append(catalog(t, files).Effects(), "model.chat"), AckWait: wait, EffectAckWait: wait}); err != nil {
		t.Fatal(err)
	}
	worker := startProcess(t, f.env, "--config", path)
	f.start("agent", "a1", `{"task":"do it"}`)
	c, err := client.Connect(f.env["PAWL_NATS_URL"], client.WithUser("owner"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for turn := range turns {
		for came := -1; came != turn; {
			select {
			case came = <-model.came:
			case <-time.After(time.Minute):
				t.Fatalf("turn %d is not asked for: %s", turn, describe(f.last("a1")))
			}
		}
		worker.kill()
		worker = startProcess(t, f.env, "--config", path)
		if turn != 1 {
			continue
		}
		f.reaches("a1", func(r *statemachine.Stored) bool { return r.To == "ask" })
		worker.kill() // a decision that nobody is there to take
		worker = startProcess(t, f.env, "--config", path)
		eventually(t, time.Minute, "the decision", func() bool {
			_, err := c.Decide(t.Context(), "a1", client.Approve, client.DecisionOptions{RequestID: "d1"})
			return err == nil
		})
	}
	r := f.ended("a1")
	if r.Status != statemachine.StatusSucceeded || !strings.Contains(string(r.Data), `"answer":"the answer"`) {
		t.Errorf("the run %s", describe(r))
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	seen := map[string]int{}
	for turn := range turns {
		keys := model.keys[turn]
		if len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("turn %d was asked for under %v, want one key twice: once before the kill, once after", turn, keys)
		}
		if other, ok := seen[keys[0]]; ok {
			t.Errorf("turns %d and %d have one key", other, turn)
		}
		seen[keys[0]] = turn
	}
	sent, err := os.ReadFile(filepath.Join(files, "outbox.jsonl"))
	if err != nil || strings.Count(string(sent), "\n") != 1 {
		t.Errorf("%d e-mails, %v", strings.Count(string(sent), "\n"), err)
	}
	answers := 0
	for _, rec := range f.history("a1") {
		for _, e := range rec.Events {
			if e.Kind == statemachine.EventResult && e.Name == "model.chat" {
				answers++
			}
		}
	}
	if answers != turns {
		t.Errorf("%d answers are recorded, of %d turns", answers, turns)
	}
}

// TestOnboardingGoesOnAfterAKill: a worker dies when the fifth effect of a site's
// onboarding is done; another goes on, and performs nothing again.
func TestOnboardingGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	f := realServers(t)
	files := t.TempDir()
	f.env["PAWL_EFFECTS_FILE_DIR"] = files
	worker := startProcess(t, f.env)
	f.start("onboarding", "o1", `{"site":"4412","to":"site-4412@example.com","within":"1h"}`)
	f.reaches("o1", func(r *statemachine.Stored) bool { return r.To == "approval" })
	worker.kill()
	worker = startProcess(t, f.env)
	c, err := client.Connect(f.env["PAWL_NATS_URL"], client.WithUser("coordinator"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, time.Minute, "the decision", func() bool {
		_, err := c.Decide(t.Context(), "o1", client.Approve, client.DecisionOptions{RequestID: "d1"})
		return err == nil
	})
	f.reaches("o1", func(r *statemachine.Stored) bool { return r.To == "welcome" || r.To == "kickoff" || r.Status.Ended() })
	worker.kill()
	startProcess(t, f.env)
	if r := f.ended("o1"); r.Status != statemachine.StatusSucceeded {
		t.Fatalf("the run %s", describe(r))
	}
	for name, want := range map[string]int{"sites.jsonl": 5, "outbox.jsonl": 1} {
		b, err := os.ReadFile(filepath.Join(files, name))
		if got := strings.Count(string(b), "\n"); err != nil || got != want {
			t.Errorf("%s has %d entries, %v, want %d:\n%s", name, got, err, want, b)
		}
	}
}
