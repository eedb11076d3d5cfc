package pawl_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/statemachine"
)

const wirePage = "docs/wire.md"

var updateWire = flag.Bool("update-wire", false, "write the answers of a fleet into "+wirePage)

// wireRequest is a line such as: $ nats req [-H 'Name:value'] SUBJECT ['BODY'] [| head -n LINES]
var (
	wireRequest = regexp.MustCompile(`^\$ nats req((?: -H '[^']+')*) ('[^']+'|\S+)(?: '([^']*)')?(?: \| head -n (\d+))?$`)
	wireHeader  = regexp.MustCompile(`-H '([^:']+):([^']+)'`)
)

// The page of the wire shows what a fleet answers: its requests are made, one
// after the other, and the answers must have the shape that it shows, and the
// values that are not of the moment.
func TestWirePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(wirePage)
	if err != nil {
		t.Fatal(err)
	}
	f := realServers(t)
	f.env["PAWL_WORKER_SWEEP_EVERY"] = "1s"
	startProcess(t, f.env)
	eventually(t, 60*time.Second, "an index that has all runs", func() bool {
		r, err := f.nc.Request("pawl.api.view.runs.list", nil, time.Second)
		return err == nil && strings.Contains(string(r.Data), `"complete":true`)
	})
	var out []string
	lines := strings.Split(string(page), "\n")
	asked := 0
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		m := wireRequest.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.HasPrefix(lines[i], "$ nats req") {
				t.Errorf("line %d is no request that this test can make: %s", i+1, lines[i])
			}
			continue
		}
		asked++
		var shown []string
		for i+1 < len(lines) && lines[i+1] != "```" && lines[i+1] != "" {
			i++
			shown = append(shown, lines[i])
		}
		f.settled()
		got := f.raw(m[1], strings.Trim(m[2], "'"), m[3])
		if m[4] != "" { // the page shows the head of it
			n, _ := strconv.Atoi(m[4])
			all := strings.Split(got, "\n")
			got = strings.Join(all[:min(n, len(all))], "\n")
		}
		out = append(out, got)
		if diff := cmp.Diff(blurred(strings.Join(shown, "\n")), blurred(got)); diff != "" && !*updateWire {
			t.Errorf("line %d: %s\nis answered (-shown +got):\n%s\n%s", i+1, m[0], diff, got)
		}
	}
	if asked < 20 {
		t.Errorf("the page has %d requests: are they still read?", asked)
	}
	if *updateWire {
		if err := os.WriteFile(wirePage, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// settled waits until no run is on the move, so that what is asked next has
// one answer.
func (f *fleet) settled() {
	f.t.Helper()
	eventually(f.t, 30*time.Second, "runs at rest", func() bool {
		for _, name := range []string{"PAWL_START", "PAWL_SIGNAL", "PAWL_EVENTS"} {
			s, err := f.js.Stream(f.t.Context(), name)
			if err != nil {
				f.t.Fatal(err)
			}
			if s.CachedInfo().State.Msgs > 0 {
				return false
			}
		}
		for _, r := range f.lastOf(f.t.Context()) {
			if _, asks := r.Gate(""); r.Status == statemachine.StatusRunning && (!asks || len(r.Pending) > 0) {
				return false
			}
		}
		return true
	})
}

// raw makes a request and returns the code of an error and the body.
func (f *fleet) raw(headers, subject, body string) string {
	f.t.Helper()
	m := nats.NewMsg(subject)
	for _, h := range wireHeader.FindAllStringSubmatch(headers, -1) {
		m.Header.Set(h[1], h[2])
	}
	m.Data = []byte(body)
	r, err := f.nc.RequestMsg(m, 30*time.Second)
	if err != nil {
		f.t.Fatalf("%s: %v", subject, err)
	}
	head := ""
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		head += name + ": " + r.Header.Get(name) + "\n"
	}
	return head + folded(bytes.TrimSpace(r.Data), "")
}

// folded is JSON that a page can show: on one line where it fits, whatever is of
// the moment.
func folded(raw json.RawMessage, indent string) string {
	const width = 150
	if len(blurred(string(raw)))+len(indent) <= width || raw[0] != '{' && raw[0] != '[' {
		return string(raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	var b strings.Builder
	b.WriteString(string(raw[0]))
	for sep := "\n"; d.More(); sep = ",\n" {
		b.WriteString(sep + indent + "  ")
		if raw[0] == '{' {
			key, _ := d.Token()
			fmt.Fprintf(&b, "%q:", key)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return string(raw)
		}
		b.WriteString(folded(v, indent+"  "))
	}
	b.WriteString("\n" + indent + string(raw[len(raw)-1]))
	return b.String()
}

// ofTheMoment is what differs from fleet to fleet: only that it is there is
// compared.
var ofTheMoment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|` +
	`(Nats-Msg-Id|Nats-Batch-Id|Pawl-Dlq-Hash|Pawl-Dlq-Id|Pawl-Dlq-Fingerprint|Pawl-Dlq-Build): .*|` + // headers
	`([":])[A-Za-z0-9_-]{22}"|"[a-z0-9]{16}(-start-\d+)"|` + // ids
	`("(?:build|by|worker|host|pid|version|last_error)":)"[^"]*"|` +
	`("(?:bytes|max_bytes|messages|waiting|num_requests|processing_time|average_processing_time|held|handlers|lanes)":)\d+`)

func blurred(text string) string { return ofTheMoment.ReplaceAllString(text, "$1$2$3$4$5…") }
