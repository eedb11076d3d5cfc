package transitions

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocFetch(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			_, _ = io.WriteString(w, "hello from afar")
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", maxDocument+1))
		case "/quotes": // short, but not as JSON
			_, _ = io.WriteString(w, strings.Repeat(`"`, maxDocument/2+1))
		case "/binary":
			_, _ = w.Write([]byte{0xff, 0xfe})
		case "/busy":
			w.WriteHeader(503)
		default:
			w.WriteHeader(404)
		}
	})
	dir := t.TempDir()
	for name, content := range map[string]string{"hello.txt": "hello from here", "large.txt": strings.Repeat("x", maxDocument+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		in   source
		want document
		out  outcome
	}{
		{"text", source{Text: "hello"}, document{"input", "hello", 1}, outcome{}},
		{"url", source{URL: s.URL + "/hello?token=hidden"}, document{s.URL + "/hello", "hello from afar", 3}, outcome{}},
		{"file", source{File: "hello.txt"}, document{"hello.txt", "hello from here", 3}, outcome{}},
		{"no such file", source{File: "none.txt"}, document{}, outcome{class: "not_found"}},
		{"a file outside", source{File: "../x"}, document{}, outcome{class: "invalid_input"}},
		{"no such page", source{URL: s.URL + "/none"}, document{}, outcome{class: "not_found"}},
		{"a busy server", source{URL: s.URL + "/busy"}, document{}, outcome{later: true}},
		{"a large page", source{URL: s.URL + "/large"}, document{}, outcome{class: "document_too_large"}},
		{"a page that is large as JSON", source{URL: s.URL + "/quotes"}, document{}, outcome{class: "document_too_large"}},
		{"a large file", source{File: "large.txt"}, document{}, outcome{class: "document_too_large"}},
		{"no text", source{URL: s.URL + "/binary"}, document{}, outcome{class: "not_text"}},
		{"nothing", source{}, document{}, outcome{class: "invalid_input"}},
		{"two", source{Text: "a", File: "b"}, document{}, outcome{class: "invalid_input"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := library{web: testCaller(t, loopback...), files: folder(dir)}.fetch(t.Context(), "k", tt.in)
			if got != tt.want || outcomeOf(err) != tt.out {
				t.Errorf("fetch(%+v) = %+v, %v, want %+v, %+v", tt.in, got, err, tt.want, tt.out)
			}
		})
	}
}
