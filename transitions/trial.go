package transitions

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// site is the input of the effects of a clinical trial: a site that takes part.
type site struct {
	Site string `json:"site"` // its number
}

// siteRecord is what a system of the trial answers.
type siteRecord struct {
	ID string `json:"id"` // its number for it
}

// The effects by which a site comes to take part in a trial.
const (
	siteVerify   statemachine.Effect[site, siteRecord] = "site.verify"
	siteAccounts statemachine.Effect[site, siteRecord] = "site.accounts"
	siteClose    statemachine.Effect[site, siteRecord] = "site.close"
	irbRequest   statemachine.Effect[site, siteRecord] = "irb.request"
	edcProvision statemachine.Effect[site, siteRecord] = "edc.provision"
	kickoffBook  statemachine.Effect[site, siteRecord] = "kickoff.book"
)

// trial stands for the systems of a clinical trial: its register of sites, where
// no number begins with a 0, the accounts, the review board, the capture of data
// and the calendar.
type trial struct{ book *book }

// perform returns what performs one of its effects, whose answers have numbers
// that begin with what.
func (t trial) perform(what string) func(context.Context, string, site) (siteRecord, error) {
	return func(_ context.Context, key string, s site) (siteRecord, error) {
		if strings.HasPrefix(s.Site, "0") {
			return siteRecord{}, statemachine.Terminal("not_found", fmt.Errorf("there is no site %s", s.Site))
		}
		number, _, err := t.book.write(key, struct {
			What string `json:"what"`
			site
		}{what, s})
		if err != nil {
			return siteRecord{}, err
		}
		return siteRecord{ID: fmt.Sprintf("%s-%06d", what, number)}, nil
	}
}
