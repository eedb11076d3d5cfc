package flow_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/flow"
)

// closed is a notice that a key of http.post is closed for d from now on.
func closed(key string, d time.Duration) flow.Notice {
	return flow.Notice{Kind: flow.KindKey, Effect: "http.post", Key: key, Held: true, Until: time.Now().Add(d)}
}

func paused(effect string, held bool) flow.Notice {
	return flow.Notice{Kind: flow.KindEffect, Effect: effect, Held: held}
}

func TestBoardKnowsWhatHolds(t *testing.T) {
	t.Parallel()
	var b flow.Board
	if n, ok := b.Why("http.post", "a", "m", "s"); ok {
		t.Errorf("an empty board holds %v up", n)
	}
	changed := b.Changed()
	b.Apply(closed("a", time.Hour))
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a change")
	}
	b.Apply(closed("gone", -time.Second))
	b.Apply(flow.Notice{Kind: flow.KindState, Machine: "m", State: "s", Held: true})
	for _, tt := range []struct {
		effect, key, machine, state string
		want                        flow.Kind
	}{
		{"http.post", "a", "m", "other", flow.KindKey},
		{"http.post", "b", "m", "other", ""},
		{"http.post", "gone", "m", "other", ""},
		{"doc.fetch", "a", "m", "other", ""},
		{"http.post", "a", "m", "s", flow.KindState},
		{"http.post", "b", "n", "s", ""},
	} {
		if n, _ := b.Why(tt.effect, tt.key, tt.machine, tt.state); n.Kind != tt.want {
			t.Errorf("Why(%s, %s, %s, %s) = %q, want %q", tt.effect, tt.key, tt.machine, tt.state, n.Kind, tt.want)
		}
	}
	b.Apply(paused("http.post", true))
	if n, ok := b.Effect("http.post"); !ok || n.Subject().String() != "effect http.post" {
		t.Errorf("Effect = %v, %v", n, ok)
	}
	if got := b.List(); len(got) != 3 {
		t.Errorf("List = %v, want three", got)
	}
	b.Apply(paused("http.post", false))
	if _, ok := b.Effect("http.post"); ok {
		t.Error("a type that goes on is paused")
	}
	b.Replace([]flow.Notice{paused("noop", true)})
	if got := b.List(); len(got) != 1 || got[0].Effect != "noop" {
		t.Errorf("List = %v, want noop alone", got)
	}
}

// A key stays closed until the latest time that anybody was told, whatever
// order that is learned in, until somebody opens it.
func TestClosedKeyStaysClosedUntilTheLatestTime(t *testing.T) {
	t.Parallel()
	var b flow.Board
	long := closed("a", time.Hour)
	b.Apply(long)
	b.Apply(closed("a", time.Second))
	b.Apply(closed("a", -time.Second))
	if n, ok := b.Get(long.Subject()); !ok || !n.Until.Equal(long.Until) {
		t.Errorf("closed until %s, want %s", n.Until, long.Until)
	}
	open := long
	open.Held, open.Until = false, time.Time{}
	b.Apply(open)
	if _, ok := b.Get(long.Subject()); ok {
		t.Error("an opened key is closed")
	}
}

func TestNoticeIsChecked(t *testing.T) {
	t.Parallel()
	good := closed("api.example.com", time.Minute)
	body, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	got, err := flow.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(good.Until.UnixNano(), got.Until.UnixNano()); diff != "" || got.Key != good.Key {
		t.Errorf("read %+v, want %+v", got, good)
	}
	for _, bad := range []string{
		``, `[]`, `{}`, `{"kind":"worker"}`, `{"kind":"effect"}`, `{"kind":"effect","effect":"A b"}`, `{"kind":"effect","effect":"a..b"}`,
		`{"kind":"effect","effect":"noop","key":"k"}`, `{"kind":"effect","effect":"noop","state":"s"}`,
		`{"kind":"state","machine":"m"}`, `{"kind":"state","machine":"m","state":"s","effect":"noop"}`,
		`{"kind":"key","effect":"noop","held":true}`, `{"kind":"key","effect":"noop","held":false,"until":"2026-01-01T00:00:00Z"}`,
	} {
		if n, err := flow.Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%s) = %+v, want an error", bad, n)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		interval time.Duration
		burst    int
	}{
		"":       {0, 0},
		"100/s":  {10 * time.Millisecond, 100},
		"90/m":   {time.Minute / 90, 1},
		"1/h":    {time.Hour, 1},
		"7200/h": {500 * time.Millisecond, 2},
	} {
		r, err := flow.ParseRate(text)
		if err != nil || r.Interval() != want.interval || r.Burst() != want.burst || r.String() != text {
			t.Errorf("ParseRate(%q) = %v, %v: every %s, %d at once, want %v", text, r, err, r.Interval(), r.Burst(), want)
		}
	}
	for _, bad := range []string{"5", "0/s", "-1/s", "1/d", "/s", "1.5/s", "9999999/s", "1/s "} {
		if r, err := flow.ParseRate(bad); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", bad, r)
		}
	}
}
