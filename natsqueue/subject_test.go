package natsqueue

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/queue"
)

func TestSubjects(t *testing.T) {
	t.Parallel()
	s := subjects{"pawl"}
	tests := []struct{ name, got, want string }{
		{"start", s.start("sink"), "pawl.start.sink"},
		{"signal", s.signal("a.b", "go"), "pawl.signal.~YS5i.go"},
		{"history", s.history("run-1"), "pawl.history.252.run-1"},
		{"partition", s.partition(7), "pawl.history.7.*"},
		{"event", s.event("run-1"), "pawl.event.252.run-1"},
		{"effect", s.effect("http.post", "run-1", "E1"), "pawl.effect.http+post.252.run-1.E1"},
		{"timer", s.timer("run-1", "E1", 2), "pawl.timer.252.run-1.E1.2"},
		{"due", s.due("run-1", "E1", 2), "pawl.due.252.run-1.E1.2"},
		{"later", s.later("X"), "pawl.timer.later.X"},
		{"due later", s.dueLater("X"), "pawl.due.later.X"},
		{"letter", s.letter("start", "sink"), "pawl.dlq.start.sink"},
		{"letter of no machine", s.letter("start", ""), "pawl.dlq.start._"},
		{"letter of what is no name", s.letter("start", "a.>"), "pawl.dlq.start._"},
		{"blob", s.blob(runPart("run-1"), "HASH", 3), "pawl.blob.252.run-1.HASH.3"},
		{"blob of a letter", s.blob(letterPart("LETTER"), "HASH", 0), "pawl.blob.dlq.LETTER.HASH.0"},
		{"index of letters", s.letterIndex("LETTER"), "pawl.letter.LETTER"},
		{"blob of a key", s.blob(ledgerPart("k"), "HASH", 0), "pawl.blob.ledger." + hashToken("k") + ".HASH.0"},
		{"machine", s.machine("sink", 2), "pawl.machine.sink.2"},
		{"stream", s.stream(streamStart), "PAWL_START"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s = %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

// TestSubjectsOfOddRuns checks that no run id makes a subject that is a
// pattern, has more tokens than it should, or is another run's.
func TestSubjectsOfOddRuns(t *testing.T) {
	t.Parallel()
	s := subjects{"pawl"}
	seen := map[string]string{}
	for _, run := range append(oddRuns, strings.Repeat("y", 5000)) {
		for subject, tokens := range map[string]int{
			s.history(run): 4, s.event(run): 4, s.signal(run, "go"): 4, s.effect("noop", run, run): 6, s.timer(run, run, 1): 6, s.ledger(run): 3,
		} {
			if !server.IsValidPublishSubject(subject) || strings.Count(subject, ".")+1 != tokens || len(subject) > 400 {
				t.Errorf("run %q makes subject %q", run, subject)
			}
			if other, ok := seen[subject]; ok && other != run {
				t.Errorf("runs %q and %q share subject %s", run, other, subject)
			}
			seen[subject] = run
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "order_to-cash2": true, strings.Repeat("a", 64): true,
		"": false, "A": false, "1a": false, "a.b": false, "a b": false, "*": false, strings.Repeat("a", 65): false, "a\n": false,
	} {
		if err := checkName("machine", name); (err == nil) != ok {
			t.Errorf("checkName(%q) = %v", name, err)
		}
	}
	for name, ok := range map[string]bool{
		"noop": true, "http.post": true, "a.b_c.d-e": true, "a.1": true,
		"": false, ".a": false, "a.": false, "a..b": false, "a+b": false, "*": false, "a.*": false, strings.Repeat("a", 65): false,
	} {
		if err := checkEffect(name); (err == nil) != ok {
			t.Errorf("checkEffect(%q) = %v", name, err)
		}
		if ok && effectOf(EffectToken(name)) != name {
			t.Errorf("effect %q becomes %q", name, effectOf(EffectToken(name)))
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	for _, run := range oddRuns {
		f.Add(run)
	}
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		v := headerValue(text)
		if strings.ContainsAny(v, "\r\n\x00") || v != strings.TrimSpace(v) {
			t.Errorf("headerValue(%q) = %q is no header value", text, v)
		}
		if back, err := textOf(v); err != nil || back != text {
			t.Errorf("textOf(headerValue(%q)) = %q, %v", text, back, err)
		}
	})
}

func TestRunPartMatchesTheKeysOfRedis(t *testing.T) {
	t.Parallel()
	for _, run := range oddRuns {
		p, token, ok := strings.Cut(runPart(run), ".")
		if !ok || token != queue.Token(run) || p == "" {
			t.Errorf("runPart(%q) = %s", run, runPart(run))
		}
	}
}
