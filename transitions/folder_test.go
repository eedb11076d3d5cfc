package transitions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFileAppend(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	f := folder(dir)
	for _, key := range []string{"k1", "k2", "k2"} {
		if _, err := f.append(t.Context(), key, json.RawMessage("{\"file\": \"a/b.log\",\n \"n\": 1}")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "a", "b.log"))
	if err != nil {
		t.Fatal(err)
	}
	line := func(key string) string { return `{"key":"` + key + `","input":{"file":"a/b.log","n":1}}` + "\n" }
	if want := line("k1") + line("k2") + line("k2"); string(got) != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
}

func TestFileAppendStaysBelow(t *testing.T) {
	t.Parallel()
	outsideDir := t.TempDir()
	dir := t.TempDir()
	if err := os.Symlink(outsideDir, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outsideDir, "x"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/etc/passwd", "a/", "out/x", "link", "a\x00b", "folder", "ledger.jsonl", "./OUTBOX.jsonl", "a/../ledger.jsonl"} {
		input, err := json.Marshal(map[string]string{"file": name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := folder(dir).append(t.Context(), "k", input); outcomeOf(err).class != "invalid_input" {
			t.Errorf("append to %q = %v, want class invalid_input", name, err)
		}
		if name == "ledger.jsonl" || name == "./OUTBOX.jsonl" || name == "a/../ledger.jsonl" {
			continue
		}
		if _, err := folder(dir).read(name, 10); outcomeOf(err).class == "" {
			t.Errorf("read %q = %v, want a terminal error", name, err)
		}
	}
	if left, err := os.ReadDir(outsideDir); err != nil || len(left) != 0 {
		t.Errorf("outside the folder there is %v, %v", left, err)
	}
	if _, err := folder("").append(t.Context(), "k", json.RawMessage(`{"file":"x"}`)); outcomeOf(err).class != "not_configured" {
		t.Errorf("append without a folder = %v, want class not_configured", err)
	}
}

// Lines of many writers do not mix.
func TestFileAppendConcurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := json.RawMessage(`{"file":"x","text":"` + strings.Repeat("y", 10_000) + `"}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := folder(dir).append(t.Context(), "k", input); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(got)) {
		if n++; !json.Valid([]byte(line)) {
			t.Fatalf("line %d is torn", n)
		}
	}
	if n != 160 {
		t.Errorf("the file has %d lines, want 160", n)
	}
}
