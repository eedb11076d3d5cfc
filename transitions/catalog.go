package transitions

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// localTimeout is the time of one attempt of what needs no network.
const localTimeout = 10 * time.Second

// Catalog returns the machines and handlers this fleet ships. The error names
// every fault of the configuration, or of the machines.
func Catalog(c Config) (*statemachine.Catalog, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configuration of the effects: %w", err)
	}
	hosts, err := parseAllowList(c.AllowHosts)
	if err != nil {
		return nil, err
	}
	web := newCaller(hosts, c.HTTPTimeout)
	files := folder(c.FileDir)
	mail := &postOffice{book: &book{dir: files, name: outboxFile}, out: c.Out}
	books := ledger{book: &book{dir: files, name: ledgerFile}}
	sites := trial{book: &book{dir: files, name: trialFile}}
	travel := agency{bookings: &book{dir: files, name: bookingsFile}, cancellations: &book{dir: files, name: cancellationsFile}}
	local, remote := statemachine.Policy{Timeout: localTimeout}, statemachine.Policy{Timeout: c.HTTPTimeout}

	catalog := new(statemachine.Catalog)
	ship(catalog, c, noop, doNothing, local)
	ship(catalog, c, logEffect, writeLog(c.Logger), local)
	ship(catalog, c, fileAppend, files.append, local)
	ship(catalog, c, httpPost, web.httpPost, remote)
	if _, taken := c.Bound[httpPost.Name()]; !taken {
		statemachine.Verifier(catalog, httpPost, web.verifyPost)
	}
	ship(catalog, c, docFetch, library{web: web, files: files}.fetch, remote)
	ship(catalog, c, textSummarise, summarise, local)
	ship(catalog, c, invoiceTotals, extractTotals, local)
	ship(catalog, c, ledgerPost, books.post, local)
	ship(catalog, c, travelBook, travel.book, local)
	ship(catalog, c, travelCancel, travel.cancel, local)
	ship(catalog, c, emailSend, mail.send, local)
	for what, effect := range map[string]statemachine.Effect[site, siteRecord]{
		"site": siteVerify, "accounts": siteAccounts, "closed": siteClose, "irb": irbRequest, "edc": edcProvision, "kickoff": kickoffBook,
	} {
		ship(catalog, c, effect, sites.perform(what), local)
	}
	for _, name := range sortedKeys(c.Bound) {
		b := c.Bound[name]
		statemachine.HandleRaw(catalog, name, bound(b), statemachine.Policy{Timeout: b.Timeout, Within: b.Within, Heartbeat: b.Heartbeat})
		if b.Verify != "" {
			statemachine.VerifierRaw(catalog, name, verifyBound(b))
		}
	}
	if c.Model.URL != "" {
		all := tools(c)
		chat := &chatter{web: newCaller(&allowList{any: true}, c.Model.Timeout), model: c.Model, tools: all}
		ship(catalog, c, modelChat, chat.chat, statemachine.Policy{Timeout: c.Model.Timeout})
		catalog.Add(agent(all))
	}
	catalog.Add(report(), invoice(), trip(), onboarding(), renewal(), kitchensink(catalog.Effects(), 1), kitchensink(catalog.Effects(), 2), kitchensink(catalog.Effects(), 3), kitchensink(catalog.Effects(), 4))
	return catalog, catalog.Check()
}

// ship declares a handler, unless the effect is bound to a service.
func ship[In, Out any](catalog *statemachine.Catalog, c Config, effect statemachine.Effect[In, Out],
	f func(context.Context, string, In) (Out, error), policy statemachine.Policy) {
	if _, taken := c.Bound[effect.Name()]; !taken {
		statemachine.Handle(catalog, effect, f, policy)
	}
}
