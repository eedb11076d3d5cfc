package statemachine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// Site is the data of the example.
type Site struct {
	ID      string `json:"id"`
	Account string `json:"account,omitempty"`
}

func (s *Site) ref() string      { return s.ID }
func (s *Site) made(name string) { s.Account = name }

// The effects of the example.
const (
	Verify sm.Effect[string, bool]   = "site.verify"
	Create sm.Effect[string, string] = "account.create"
)

// Example declares a machine, puts it into a catalog with its handlers, and
// makes the first two records of a run, as a worker would.
func Example() {
	m := sm.New[Site]("onboarding", 1)
	m.Index("site", (*Site).ref)
	m.State("verify", sm.Call(Verify, (*Site).ref, nil)).Catch("not_found", "rejected")
	m.State("create", sm.Call(Create, (*Site).ref, (*Site).made).Timeout(time.Minute))
	m.Succeed("done")
	m.Fail("rejected", "site_rejected")

	c := new(sm.Catalog).Add(m)
	sm.Handle(c, Verify, func(ctx context.Context, key, site string) (bool, error) { return true, nil })
	sm.Handle(c, Create, func(ctx context.Context, key, site string) (string, error) { return "acct-" + site, nil })
	if err := c.Check(); err != nil {
		fmt.Println(err)
		return
	}

	d, _ := c.Definition("onboarding", 0)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := d.Begin("run-1", nil, sm.Env{Now: noon})
	if _, err := f.Apply(sm.Event{Kind: sm.EventStart, Body: json.RawMessage(`{"id":"4412"}`)}); err != nil {
		fmt.Println(err)
		return
	}
	first, err := f.Seal()
	if err != nil {
		fmt.Println(err)
		return
	}
	asked := first.Pending[0]
	fmt.Println(first.Rev, first.To, asked.Effect, string(asked.Input), asked.Place)

	first.Seq = 17 // where it was appended
	f = d.Begin("run-1", &first.Stored, sm.Env{Now: noon.Add(time.Second)})
	if _, err := f.Apply(sm.Event{Kind: sm.EventResult, Effect: asked.ID, Body: json.RawMessage(`true`)}); err != nil {
		fmt.Println(err)
		return
	}
	second, err := f.Seal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(second.Rev, second.To, second.Pending[0].Effect, second.PrevTxid == first.Txid)
	// Output:
	// 1 verify site.verify "4412" queued
	// 2 create account.create true
}
