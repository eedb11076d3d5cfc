package statemachine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// Payout is the data of the example.
type Payout struct {
	sm.Meta
	To     string      `json:"to"`
	Amount int         `json:"amount"`
	Said   sm.Decision `json:"said"`
}

// Note is what approvers get.
type Note struct {
	To   []string
	Text string
}

func (p *Payout) shown() string         { return fmt.Sprintf("%d to %s", p.Amount, p.To) }
func (p *Payout) decided(d sm.Decision) { p.Said = d }
func (p *Payout) declined() bool        { return !p.Said.Approved() }
func (p *Payout) note() Note            { return Note{p.Notice().To, string(p.Notice().Kind) + ": " + p.shown()} }
func (p *Payout) amount() int           { return p.Amount }

// The effects of the example.
const (
	Tell sm.Effect[Note, struct{}] = "chat.post"
	Pay  sm.Effect[int, string]    = "bank.pay"
)

// Nothing is paid before two of three have approved. They are told what waits
// for them, and again each day; after three days it is too late.
func ExampleApprove() {
	m := sm.New[Payout]("payout", 1)
	m.State("ask", sm.Approve(sm.Approval{By: []string{"ann", "bob", "cleo"}, Quorum: 2, Remind: 24 * time.Hour},
		(*Payout).shown, (*Payout).decided).Tell(sm.Call(Tell, (*Payout).note, nil))).
		Within(3*24*time.Hour, "late").When((*Payout).declined, "declined")
	m.State("pay", sm.Call(Pay, (*Payout).amount, nil)).Then("done")
	m.Succeed("done")
	m.Fail("declined", "declined")
	m.Fail("late", "not_decided")

	r := pawltest.Start(new(testing.T), m, json.RawMessage(`{"to":"Gdynia","amount":12}`),
		pawltest.Returns(Pay, "paid"),
		pawltest.On(Tell, func(n Note) (struct{}, error) {
			fmt.Println("tell", n.To, n.Text)
			return struct{}{}, nil
		}),
	)
	fmt.Println(r.Decide("bob", sm.Approved), r.State())
	fmt.Println(r.Decide("bob", sm.Approved))
	r.Advance(24 * time.Hour)
	fmt.Println(r.Decide("ann", sm.Approved), r.Status())
	// Output:
	// tell [ann bob cleo] ask: 12 to Gdynia
	// <nil> ask
	// already_answered: bob answered at 2026-01-01T00:00:00Z: approve
	// tell [ann cleo] remind: 12 to Gdynia
	// <nil> succeeded
}
