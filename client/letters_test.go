package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/client"
)

// What was given up is planned, re-driven and discarded by whoever holds no
// tool in their hand: by selection and by name, a part first, edited, and on
// the record.
func TestLettersAreChanged(t *testing.T) {
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer sink.Close()
	c, err := client.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const many = 5
	ctx, tenant := t.Context(), fmt.Sprint("tenant-", time.Now().UnixNano())
	id := func(i int) string { return fmt.Sprint(tenant, "-", i) }
	for i := range many {
		if _, err := c.Publish(ctx, "kitchensink", json.RawMessage(parks), client.StartOptions{ID: id(i), Tenant: tenant}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Publish(ctx, "report", json.RawMessage(`{"to":5}`), client.StartOptions{ID: id(many), Tenant: tenant}); err != nil {
		t.Fatal(err)
	}
	letters := func() (all []*client.Letter) {
		t.Helper()
		for l, err := range c.Letters(ctx, client.LettersQuery{Tenant: tenant}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		return all
	}
	for end := time.Now().Add(30 * time.Second); len(letters()) <= many; {
		if time.Now().After(end) {
			t.Fatalf("%d letters, want %d", len(letters()), many+1)
		}
	}
	effects := client.LetterFilter{Kind: "effect", Tenant: tenant}
	edit := json.RawMessage(fmt.Sprintf(`{"url":%q}`, sink.URL))
	want := func(what string, r *client.LettersReport, err error, selected, changed int, says string) {
		t.Helper()
		if err != nil || r.Selected != selected || r.Changed != changed || r.Refused != selected-changed {
			t.Fatalf("%s: %+v, %v, want %d selected and %d changed", what, r, err, selected, changed)
		}
		text, _ := json.Marshal(r)
		if !strings.Contains(string(text), says) {
			t.Errorf("%s: %s does not say %q", what, text, says)
		}
	}
	plan, err := c.PlanRedrive(ctx, client.LettersChange{Select: &effects, Edit: edit})
	want("plan", plan, err, many, many, "perform http.post again, edited")
	if len(letters()) != many+1 || !plan.Planned || plan.RequestID != "" {
		t.Errorf("a plan changed something: %+v", plan)
	}
	r, err := c.Redrive(ctx, client.LettersChange{Select: &effects, Edit: edit, Limit: 2, By: "ann", Reason: "the url was wrong"})
	want("redrive of two", r, err, 2, 2, `"request_id"`)
	r, err = c.Redrive(ctx, client.LettersChange{Select: &effects, Edit: edit, Reason: "the url was wrong"})
	want("redrive of the rest", r, err, many-2, many-2, "perform http.post again, edited")
	for i := range many {
		if run, err := c.Wait(ctx, id(i)); err != nil || run.Status != "succeeded" || run.Tenant != tenant {
			t.Errorf("%s: %+v, %v", id(i), run, err)
		}
	}
	r, err = c.Redrive(ctx, client.LettersChange{Select: &effects, Reason: "again"})
	want("redrive of none", r, err, 0, 0, "")

	left := letters()
	if len(left) != 1 {
		t.Fatalf("%d letters are left, want that of the start", len(left))
	}
	for _, changed := range []int{1, 0} {
		r, err = c.Discard(ctx, client.LettersChange{Letters: []uint64{left[0].Seq, left[0].Seq}, Reason: "a test"})
		says := "discard the letter of a start of report"
		if changed == 0 {
			says = "there is no such letter"
		}
		want("discard", r, err, 1, changed, says)
	}
	for _, q := range []client.LettersChange{{}, {All: true}, {Select: &client.LetterFilter{}, Reason: "x"}, {All: true, Reason: "x", Limit: -1}} {
		if _, err := c.Discard(ctx, q); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("discard %+v: %v, want ErrInvalid", q, err)
		}
	}
}
