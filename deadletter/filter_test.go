package deadletter

import (
	"testing"
	"time"
)

func TestFilterMatches(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	letter := Letter{Kind: KindEffect, Machine: "invoice", State: "post", Class: "http_4xx", Effect: "ledger.post", Run: "run-1", Print: "abc", Build: "v1", Last: at, Headers: map[string]string{"Pawl-Tenant": "acme"}}
	tests := []struct {
		name   string
		filter Filter
		want   bool
	}{
		{"nothing is asked", Filter{}, true},
		{"everything is asked", Filter{
			Kind: KindEffect, Machine: "invoice", State: "post", Class: "http_4xx", Effect: "ledger.post", Run: "run-1", Print: "abc",
			Build: "v1", Tenant: "acme", Since: at, Until: at.Add(1),
		}, true},
		{"kind", Filter{Kind: KindStart}, false},
		{"machine", Filter{Machine: "report"}, false},
		{"state", Filter{State: "email"}, false},
		{"class", Filter{Class: "timeout"}, false},
		{"effect", Filter{Effect: "email.send"}, false},
		{"run", Filter{Run: "run-2"}, false},
		{"fingerprint", Filter{Print: "abd"}, false},
		{"build", Filter{Build: "v2"}, false},
		{"tenant", Filter{Tenant: "other"}, false},
		{"too old", Filter{Since: at.Add(1)}, false},
		{"too new", Filter{Until: at}, false},
		{"one of two", Filter{Kind: KindEffect, Machine: "report"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.filter.Matches(&letter); got != tt.want {
				t.Errorf("Matches = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFilterValidate(t *testing.T) {
	t.Parallel()
	for _, k := range append(Kinds(), "") {
		if err := (&Filter{Kind: k}).Validate(); err != nil {
			t.Errorf("Validate(%q) = %v", k, err)
		}
	}
	if err := (&Filter{Kind: "efect"}).Validate(); err == nil {
		t.Error("Validate took an unknown kind")
	}
}
