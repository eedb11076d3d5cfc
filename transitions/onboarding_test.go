package transitions

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// A site is onboarded once its coordinator approves, though that takes three
// days; otherwise its accounts are closed again.
func TestOnboarding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, site string
		wait       time.Duration
		decide     statemachine.Verdict
		status     statemachine.Status
		path       string
		closed     int
		why        string
	}{
		{"approved on the third day", "4412", 72 * time.Hour, statemachine.Approved, statemachine.StatusSucceeded,
			"verify_site create_accounts request_irb approval provision_edc welcome kickoff done", 0, ""},
		{"refused", "4412", time.Hour, statemachine.Rejected, statemachine.StatusFailed, "verify_site create_accounts request_irb approval rejected", 1, "the coordinator gave no reason"},
		{"nobody decides", "4412", usualDecision + time.Second, "", statemachine.StatusFailed, "verify_site create_accounts request_irb approval rejected", 1, "nobody decided in time"},
		{"unknown", "0007", 0, "", statemachine.StatusFailed, "verify_site rejected", 0, "the site is unknown"},
	} {
		r := run(t, Config{FileDir: t.TempDir()}, "onboarding", `{"site":"`+tt.site+`","to":"site@example.com"}`)
		if tt.wait > 0 {
			r.Advance(tt.wait)
		}
		if tt.decide != "" {
			if err := r.Decide(usualCoordinator, tt.decide); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		if r.Status() != tt.status || strings.Join(r.Path(), " ") != tt.path || len(r.Calls("site.close")) != tt.closed || !strings.Contains(r.Cause().Message, tt.why) {
			t.Errorf("%s: the run is %s by %v, closed %d times: %+v", tt.name, r.Status(), r.Path(), len(r.Calls("site.close")), r.Cause())
		}
	}
}

// A contract is renewed unless the customer objects in time, and charged once
// under the key of its version.
func TestRenewal(t *testing.T) {
	t.Parallel()
	const input = `{"contract":"C-1","version":2,"customer":"c","to":"c@example.com","currency":"EUR","price":"120.00"}`
	r := run(t, Config{FileDir: t.TempDir()}, "renewal", input)
	r.Advance(usualNotice - time.Second)
	if r.State() != "notice" || len(r.Calls("ledger.post")) != 0 {
		t.Fatalf("a second before the end of the notice the run is in %s", r.State())
	}
	r.Advance(time.Second)
	if calls := r.Calls("ledger.post"); r.Status() != statemachine.StatusSucceeded || len(calls) != 1 || calls[0].Key != "renewal:C-1:2" {
		t.Errorf("the run is %s, charged %+v", r.Status(), calls)
	}
	r = run(t, Config{FileDir: t.TempDir()}, "renewal", input)
	r.Signal("s1", "object", objection{Reason: "too dear"})
	if r.Status() != statemachine.StatusFailed || r.Cause().Message != "too dear" || len(r.Calls("ledger.post")) != 0 {
		t.Errorf("after an objection the run is %s: %+v", r.Status(), r.Cause())
	}
}
