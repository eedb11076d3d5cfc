package pawl_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
)

// post sends a request to the server of starts, and returns code and body.
func post(t *testing.T, method, url, token, id, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Idempotency-Key", id)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %d, and no JSON: %v", method, url, res.StatusCode, err)
	}
	return res.StatusCode, answer
}

// A webhook that its sender repeats starts one run, by either of two tokens;
// its status is there over HTTP, too.
func TestStartByHTTP(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("first-token-of-16\nsecond-token-of-16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := pawl.Load("", []string{"PAWL_HTTP_STARTS_ADDR=127.0.0.1:0", "PAWL_HTTP_STARTS_TOKEN_FILE=" + tokens})
	if err != nil {
		t.Fatal(err)
	}
	p, f := opened(t, func(c *pawl.Config) { c.HTTP.Starts = cfg.HTTP.Starts }, catalog(t, t.TempDir()))
	url := "http://" + p.StartsAddr()
	for range 2 {
		for _, token := range []string{"first-token-of-16", "second-token-of-16"} {
			if code, a := post(t, "POST", url+"/start/kitchensink", token, "hook-1", oneNoop); code != 202 || a["run"] != "hook-1" || a["outcome"] != "accepted" {
				t.Fatalf("start: %d %v", code, a)
			}
		}
	}
	r := f.ended("hook-1")
	f.drained("PAWL_START")
	if last := f.last("hook-1"); last.Seq != r.Seq {
		t.Errorf("the run moved after it had ended: %s", describe(last))
	}
	if code, a := post(t, "GET", url+"/runs/hook-1", "first-token-of-16", "", ""); code != 200 || a["status"] != "succeeded" || a["state"] != "done" || a["data"] != nil {
		t.Errorf("status: %d %v", code, a)
	}
	if code, a := post(t, "POST", url+"/signal/hook-1/go", "first-token-of-16", "s-1", "{}"); code != 202 || a["signal"] != "s-1" {
		t.Errorf("signal: %d %v", code, a)
	}
	if l := f.letters(1); l[0].Class != "run_ended" {
		t.Errorf("a signal to an ended run is %+v", l[0])
	}
	s := scrape(t, p)
	if n := s.values[`pawl_http_requests_total{code="202",path="/start/{machine}",server="starts"}`]; n != 4 {
		t.Errorf("%v starts counted, want 4", n)
	}
}

// The port of the starts being taken is an error that names it, and ends the
// process in order.
func TestTakenPortOfStarts(t *testing.T) {
	t.Parallel()
	p, _ := opened(t, nil, catalog(t, t.TempDir()))
	cfg := pawl.Default()
	cfg.DataDir = t.TempDir()
	cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.HTTP.Starts.Addr, cfg.HTTP.Starts.Token = p.HTTPAddr(), "token-of-16-bytes"
	second, err := pawl.Open(t.Context(), cfg, catalog(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), "http.starts.addr") {
		t.Errorf("Run = %v, want an error that names http.starts.addr", err)
	}
}
