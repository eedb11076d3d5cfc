package transitions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestBookWritesAKeyOnce(t *testing.T) {
	t.Parallel()
	b := &book{dir: folder(t.TempDir()), name: "x.jsonl"}
	steps := []struct {
		key, entry string
		number     int
		fresh      bool
		class      string
	}{
		{"a", "1", 1, true, ""},
		{"b", "1", 2, true, ""},
		{"a", "1", 1, false, ""},
		{"a", "2", 0, false, "key_conflict"},
		{"c", "2", 3, true, ""},
	}
	for _, s := range steps {
		number, fresh, err := b.write(s.key, s.entry)
		if number != s.number || fresh != s.fresh || outcomeOf(err).class != s.class {
			t.Errorf("write(%s, %s) = %d, %v, %v, want %d, %v, class %q", s.key, s.entry, number, fresh, err, s.number, s.fresh, s.class)
		}
	}
}

// Several processes share a file: each key is written once.
func TestBookIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		b := &book{dir: folder(dir), name: "x.jsonl"}
		wg.Go(func() {
			for i := range 50 {
				if _, _, err := b.write(fmt.Sprint("key-", i), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(filepath.Join(dir, "x.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(got, []byte("\n")); n != 50 {
		t.Errorf("the file has %d lines, want 50:\n%s", n, got)
	}
}

func TestBookSurvivesHalfALineAndAnotherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl")
	b := &book{dir: folder(dir), name: "x.jsonl"}
	write := func(key string, wantNumber int, wantFresh bool) {
		t.Helper()
		if n, fresh, err := b.write(key, 1); n != wantNumber || fresh != wantFresh || err != nil {
			t.Errorf("write(%s) = %d, %v, %v, want %d, %v", key, n, fresh, err, wantNumber, wantFresh)
		}
	}
	write("a", 1, true)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":2,"key":"torn`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	write("b", 2, true)
	write("a", 1, false)
	write("b", 2, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("b", 1, true)
}

func TestProviders(t *testing.T) {
	t.Parallel()
	dir := folder(t.TempDir())
	var shown strings.Builder
	mail := &postOffice{book: &book{dir: dir, name: outboxFile}, out: &shown}
	m := letter{To: "customer-17@example.com", Subject: "Hello", Body: "First line.\nSecond line."}
	for range 2 {
		got, err := mail.send(t.Context(), "k", m)
		if want := (receipt{ID: "mail-000001", To: m.To}); got != want || err != nil {
			t.Errorf("send = %+v, %v, want %+v", got, err, want)
		}
	}
	if want := "e-mail to customer-17@example.com: Hello\n    First line. …\n"; shown.String() != want {
		t.Errorf("shown was %q, want %q", shown.String(), want)
	}
	if _, err := mail.send(t.Context(), "k2", letter{To: "nobody"}); outcomeOf(err).class != "invalid_input" {
		t.Errorf("send to nobody = %v, want class invalid_input", err)
	}

	got, err := ledger{&book{dir: dir, name: ledgerFile}}.post(t.Context(), "ledger:inv-1", posting{Invoice: "inv-1", Total: 5})
	if want := (posted{Entry: "entry-000001"}); got != want || err != nil {
		t.Errorf("post = %+v, %v, want %+v", got, err, want)
	}
	var line bookLine
	written, err := dir.read(ledgerFile, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &line); err != nil || line.Key != "ledger:inv-1" || !strings.Contains(string(line.Entry), `"total":"0.05"`) {
		t.Errorf("the ledger holds %s, %v", written, err)
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"customer-17@example.com": true, "": false, "a": false, "@b": false, "a@": false, "a@b@c": false,
		"a b@c": false, "a@b\n": false, "A <a@b>": false, "ä@exämple.com": true, "a@b,c@d": false,
	} {
		if err := checkAddress(address); (err == nil) != ok {
			t.Errorf("checkAddress(%q) = %v, want ok %v", address, err, ok)
		}
	}
}
