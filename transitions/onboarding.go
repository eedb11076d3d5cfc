package transitions

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// onboardingData is what a run of "onboarding" is about. The first four fields
// are its input.
type onboardingData struct {
	Site        string `json:"site"`                  // its number
	To          string `json:"to"`                    // the site's e-mail address
	Coordinator string `json:"coordinator,omitempty"` // who decides; default: coordinator
	Within      string `json:"within,omitempty"`      // how long that may take, such as "72h"; default: five days

	Accounts string `json:"accounts,omitempty"`
	IRB      string `json:"irb,omitempty"` // the document of the review board
	EDC      string `json:"edc,omitempty"`
	Decided  string `json:"decided,omitempty"` // by whom
	Refused  string `json:"refused,omitempty"` // why
	Kickoff  string `json:"kickoff,omitempty"`
}

const (
	usualCoordinator = "coordinator"
	usualDecision    = 5 * 24 * time.Hour
)

// onboarding brings a site into a clinical trial. What the review board has to
// say is decided upon by a person, which may take days. If that person refuses,
// or says nothing, or anything fails for good, the accounts are closed again.
func onboarding() *statemachine.Machine[onboardingData] {
	m := statemachine.New[onboardingData]("onboarding", 1)
	m.Index("site", func(o *onboardingData) string { return o.Site })
	m.State("verify_site", statemachine.Call(siteVerify, (*onboardingData).site, nil)).
		Catch("not_found", "rejected")
	m.State("create_accounts", statemachine.Call(siteAccounts, (*onboardingData).site, (*onboardingData).opened)).
		Undo(statemachine.Call(siteClose, (*onboardingData).site, nil))
	m.State("request_irb", statemachine.Call(irbRequest, (*onboardingData).site, (*onboardingData).reviewed))
	m.State("approval", statemachine.ApproveOf((*onboardingData).approval, (*onboardingData).shown, (*onboardingData).decided)).
		WithinOf((*onboardingData).patience, "rejected").
		When((*onboardingData).declined, "rejected")
	m.State("provision_edc", statemachine.Call(edcProvision, (*onboardingData).site, (*onboardingData).provisioned))
	m.State("welcome", statemachine.Call(emailSend, (*onboardingData).welcome, nil).Key((*onboardingData).welcomeKey))
	m.State("kickoff", statemachine.Call(kickoffBook, (*onboardingData).site, (*onboardingData).scheduled))
	m.Succeed("done")
	m.Fail("rejected", "site_rejected").Because((*onboardingData).why)
	return m
}

// Validate says what is wrong with the input.
func (o *onboardingData) Validate() error {
	var faults []error
	fault := func(format string, v ...any) { faults = append(faults, fmt.Errorf(format, v...)) }
	if o.Site == "" || len(o.Site) > 32 || strings.Trim(o.Site, "0123456789") != "" {
		fault("site: a number is needed, not %q", clip(o.Site))
	}
	if err := checkAddress(o.To); err != nil {
		fault("to: %w", err)
	}
	if err := o.approval().Check(); err != nil {
		fault("coordinator: %w", err)
	}
	if d, err := time.ParseDuration(o.Within); o.Within != "" && (err != nil || d < 0 || d > statemachine.MaxWait) {
		fault("within: a time such as 72h is needed, at most %s, not %q", statemachine.MaxWait, clip(o.Within))
	}
	if o.Accounts+o.IRB+o.EDC+o.Decided+o.Refused+o.Kickoff != "" {
		fault("accounts, irb, edc, decided, refused and kickoff are results: they cannot be given")
	}
	return errors.Join(faults...)
}

func (o *onboardingData) site() site { return site{Site: o.Site} }

func (o *onboardingData) opened(r siteRecord)      { o.Accounts = r.ID }
func (o *onboardingData) reviewed(r siteRecord)    { o.IRB = r.ID }
func (o *onboardingData) provisioned(r siteRecord) { o.EDC = r.ID }
func (o *onboardingData) scheduled(r siteRecord)   { o.Kickoff = r.ID }

func (o *onboardingData) approval() statemachine.Approval {
	return statemachine.Approval{By: []string{cmp.Or(o.Coordinator, usualCoordinator)}, Remind: 24 * time.Hour}
}

func (o *onboardingData) patience() time.Duration {
	if d, err := time.ParseDuration(o.Within); err == nil {
		return d
	}
	return usualDecision
}

// shown is what the coordinator decides upon.
func (o *onboardingData) shown() map[string]string {
	return map[string]string{"site": o.Site, "accounts": o.Accounts, "irb": o.IRB}
}

func (o *onboardingData) decided(d statemachine.Decision) {
	for _, a := range d.Answers {
		o.Decided = a.By
		if a.Verdict == statemachine.Rejected {
			o.Refused = cmp.Or(a.Reason, "the coordinator gave no reason")
		}
	}
}

func (o *onboardingData) declined() bool { return o.Refused != "" }

func (o *onboardingData) welcome() letter {
	return letter{To: o.To, Subject: "Welcome, site " + o.Site, Body: fmt.Sprintf("Your accounts are %s, your access to the capture of data is %s.", o.Accounts, o.EDC)}
}

func (o *onboardingData) welcomeKey() string { return o.Site + ":welcome" }

func (o *onboardingData) why() string {
	return cmp.Or(o.Refused, "the site is unknown, or nobody decided in time")
}
