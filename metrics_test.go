package pawl_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/statemachine"
)

// opened runs a process of an embedded fleet until the test ends.
func opened(t *testing.T, change func(*pawl.Config), catalog *statemachine.Catalog) (*pawl.Process, *fleet) {
	t.Helper()
	cfg := pawl.Default()
	cfg.DataDir = t.TempDir()
	cfg.NATS.Listen, cfg.Redis.Listen, cfg.HTTP.Addr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Metrics.Every, cfg.Worker.SweepEvery, cfg.Worker.AckWait, cfg.Worker.EffectAckWait = 500*time.Millisecond, 2*time.Second, 1500*time.Millisecond, 1500*time.Millisecond
	cfg.Retry.Initial = 10 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	log := &lockedBuffer{}
	p, err := pawl.Open(t.Context(), cfg, catalog, pawl.WithLogger(pawl.NewLogger(log, cfg)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if t.Failed() {
			t.Logf("the worker said:\n%s", log.tail(6000))
		}
	})
	select {
	case <-p.Up():
	case err := <-done:
		done <- err
		t.Fatalf("Run = %v", err)
	}
	return p, join(t, p.NATSURL(), false)
}

// scraped is what /metrics said.
type scraped struct {
	text   []byte
	types  map[string]string              // family → type
	labels map[string]map[string]struct{} // family → label names
	values map[string]float64             // series as written → value
}

var sampleRE = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
var labelRE = regexp.MustCompile(`([a-z_]+)="`)

func scrape(t *testing.T, p *pawl.Process) *scraped {
	t.Helper()
	res, err := http.Get("http://" + p.HTTPAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	s := &scraped{text: text, types: map[string]string{}, labels: map[string]map[string]struct{}{}, values: map[string]float64{}}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			s.types[name] = kind
			continue
		}
		m := sampleRE.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("a sample cannot be read: %s", line)
		}
		s.values[strings.TrimSuffix(line, " "+m[3])] = v
		family := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(family, suffix); s.types[base] == "histogram" {
				family = base
			}
		}
		if s.labels[family] == nil {
			s.labels[family] = map[string]struct{}{}
		}
		for _, l := range labelRE.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				s.labels[family][l[1]] = struct{}{}
			}
		}
	}
	return s
}

// Each metric of the table is served by a fleet that has something to show,
// with its type and its labels; what is served is in the table; and the values
// are those of what happened.
func TestMetricsOfAFleetAreThoseOfTheTable(t *testing.T) {
	dir := t.TempDir()
	p, f := opened(t, nil, catalog(t, dir))
	if _, err := f.queue.Machines.Register(t.Context(), "foreign", 3, "hash"); err != nil {
		t.Fatal(err)
	}
	const runs = 20
	for i := range runs {
		roll := ""
		if i == 0 {
			roll = `,{"continue_as_new":true}`
		}
		f.start("kitchensink", fmt.Sprintf("run-%d", i), `{"steps":[{"do":"noop","repeat":2},{"do":"noop","place":"queued"}`+roll+`]}`)
	}
	f.start("kitchensink", "parked", `{"steps":[{"do":"http.post","input":{"url":"http://127.0.0.1:1/"}}]}`)
	f.start("foreign", "orphan", `{}`)
	f.start("nosuch", "lost", `{}`)
	for i := range runs {
		f.ended(fmt.Sprintf("run-%d", i))
	}
	f.letters(2)
	if _, err := f.nc.Request("pawl.api.view.runs.get", []byte(`{"id":"run-0"}`), 5*time.Second); err != nil {
		t.Errorf("ask the control API: %v", err)
	}
	var s *scraped
	value := func(series string) float64 { return s.values[series] }
	defer func() {
		if t.Failed() && s != nil {
			t.Logf("the last scrape:\n%s", s.text)
		}
	}()
	eventually(t, 60*time.Second, "a snapshot and a pass of the sweeper after the load", func() bool {
		s = scrape(t, p)
		return value(`pawl_runs{machine="kitchensink",state="done",status="succeeded"}`) == runs && value(`pawl_letters{kind="start"}`) == 1 &&
			value(`pawl_letters{kind="effect"}`) == 1 && value(`pawl_runs{machine="kitchensink",state="perform",status="parked"}`) == 1 &&
			value("pawl_sweep_pass_seconds") > 0 && value(`pawl_http_requests_total{code="200",path="/metrics",server="ops"}`) > 0 &&
			value("pawl_runs_complete_ratio") == 1 && value("pawl_demand") == 0
	})
	compareWithTable(t, s)
	problems, err := promlint.New(bytes.NewReader(s.text)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "pawl_") {
			t.Errorf("lint: %s: %s", problem.Metric, problem.Text)
		}
	}
	for series, want := range map[string]float64{
		`pawl_transitions_total{machine="kitchensink",state="done"}`:             runs,
		`pawl_run_seconds_count{machine="kitchensink"}`:                          runs,
		`pawl_effects_total{effect="noop",outcome="ok",place="inline"}`:          2 * runs,
		`pawl_effects_total{effect="noop",outcome="ok",place="queued"}`:          runs,
		`pawl_effects_total{effect="http.post",outcome="failed",place="inline"}`: 1,
		`pawl_effects_total{effect="http.post",outcome="failed",place="queued"}`: 4,
		`pawl_attempts_total{effect="http.post",outcome="retried"}`:              4,
		`pawl_attempts_total{effect="http.post",outcome="given_up"}`:             1,
		`pawl_letters_total{class="unknown_machine",kind="start"}`:               1,
		`pawl_letters{kind="effect"}`:                                            1,
		`pawl_runs{machine="kitchensink",state="perform",status="parked"}`:       1,
		`pawl_runs_complete_ratio`:                                               1,
		`pawl_step_seconds_count`:                                                3*runs + 5,
		`pawl_append_total{outcome="failed"}`:                                    0,
		`pawl_stream_messages{stream="MACHINES"}`:                                float64(len(catalog(t, dir).Definitions()) + 2),
		`pawl_held_messages`:                                                     0,
		`pawl_handlers_running`:                                                  0,
		`pawl_handlers_hung_total`:                                               0,
		`pawl_lane_panics_total`:                                                 0,
		`pawl_ready`:                                                             1,
		`pawl_api_requests_total{outcome="ok",verb="runs.get"}`:                  1,
		`pawl_outbox_unflushed`:                                                  0,
		`pawl_consumer_pending{consumer="effect-noop"}`:                          0,
		`pawl_stream_limit_bytes{stream="START"}`:                                1 << 30,
		`pawl_store_errors_total{store="nats"}`:                                  0,
		`pawl_redis_odd_total`:                                                   0,
	} {
		if got, ok := s.values[series]; !ok || got != want {
			t.Errorf("%s = %v (there: %v), want %v", series, got, ok, want)
		}
	}
	for _, series := range []string{
		`pawl_orphans_total{machine="foreign",version="0"}`, `pawl_append_seconds_count`, `pawl_append_seconds_sum`, `pawl_redis_loads_total{outcome="hit"}`,
		`pawl_claims_total{outcome="granted"}`, `pawl_nats_seconds_count`, `pawl_redis_seconds_count`, `pawl_group_commit_messages_count{stream="HISTORY"}`,
		`pawl_stream_bytes{stream="HISTORY"}`, `pawl_sweep_last_pass_timestamp_seconds`, `pawl_snapshot_age_seconds{snapshot="index"}`, `pawl_run_seconds_sum{machine="kitchensink"}`,
	} {
		if got := s.values[series]; got <= 0 {
			t.Errorf("%s = %v, want more than 0", series, got)
		}
	}
	if age := time.Since(time.UnixMilli(int64(1000 * value("pawl_sweep_last_pass_timestamp_seconds")))); age < 0 || age > time.Minute {
		t.Errorf("the sweeper's last pass ended %s ago", age)
	}
	for series, v := range s.values {
		if strings.HasPrefix(series, "pawl_") && (v < 0 || strings.Contains(series, "_seconds_sum") && v > 3600) {
			t.Errorf("%s is %v", series, v)
		}
		if strings.Contains(series, "nosuch") || strings.Contains(series, "run-1") {
			t.Errorf("%s has a label from outside", series)
		}
	}
}

// compareWithTable compares what was served with docs/metrics.md.
func compareWithTable(t *testing.T, s *scraped) {
	t.Helper()
	raw, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (pawl_[a-z_]+) \| (\w+) \|([^|]*)\|`)
	listed := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
		name, kind := m[1], m[2]
		listed[name] = true
		if s.types[name] == "" {
			t.Errorf("%s is in the table, and is not served", name)
			continue
		}
		if s.types[name] != kind {
			t.Errorf("%s is a %s, the table says %s", name, s.types[name], kind)
		}
		want := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		var got []string
		for l := range s.labels[name] {
			got = append(got, l)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the labels %q, the table says %q", name, got, want)
		}
	}
	for name := range s.types {
		if strings.HasPrefix(name, "pawl_") && !listed[name] {
			t.Errorf("%s is served, and not in the table", name)
		}
	}
}
