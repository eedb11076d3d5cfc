package statemachine_test

import (
	"encoding/json"
	"errors"
	"time"

	sm "github.com/pawlrun/pawl/statemachine"
)

// order is the machine most tests fold: two steps, a loop with a bound, a
// caught class, a decision and both ends.
type order struct {
	sm.Meta
	ID      string    `json:"id"`
	Total   int       `json:"total"`
	Note    string    `json:"note,omitempty"`
	Paid    bool      `json:"paid,omitempty"`
	Parcels int       `json:"parcels,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
	Panic   string    `json:"panic,omitempty"` // where to panic
}

func (o *order) Validate() error {
	if o.Total < 0 {
		return errors.New("total is negative")
	}
	return nil
}

type payment struct {
	Order  string `json:"order"`
	Amount int    `json:"amount"`
	Note   string `json:"note,omitempty"`
}

type receipt struct {
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
}

const (
	pay  sm.Effect[payment, receipt] = "card.pay"
	ship sm.Effect[string, int]      = "parcel.ship"
	tell sm.Effect[string, struct{}] = "email.send"
)

func (o *order) payment() payment {
	if o.Panic == "payment" {
		panic("payment went wrong")
	}
	return payment{Order: o.ID, Amount: o.Total, Note: o.Note}
}

func (o *order) paid(r receipt) {
	o.Paid, o.Note, o.Seen = r.OK, r.Note, o.Now()
	if o.Panic == "paid" {
		panic("paid went wrong")
	}
}

func (o *order) id() string     { return o.ID }
func (o *order) shipped(n int)  { o.Parcels += n }
func (o *order) refused() bool  { return !o.Paid }
func (o *order) more() bool     { return o.Parcels > 0 && o.Parcels < 3 }
func (o *order) huge() bool     { return o.Total > 1000 }
func (o *order) payKey() string { return "" }
func (o *order) reason() string { return "card refused: " + o.Cause().Class }

func orders() *sm.Machine[order] {
	m := sm.New[order]("order", 1)
	m.Index("id", (*order).id)
	m.State("pay", sm.Call(pay, (*order).payment, (*order).paid).Key((*order).payKey).Timeout(time.Minute)).
		Catch("declined", "apology").
		When((*order).refused, "refused")
	m.Decide("big").When((*order).huge, "apology")
	m.State("ship", sm.Call(ship, (*order).id, (*order).shipped).QueuedWhen((*order).huge)).
		Visits(5, "refused").
		When((*order).more, "ship").
		Then("done")
	m.State("apology", sm.Call(tell, (*order).reason, nil)).Then("refused")
	m.Succeed("done")
	m.Fail("refused", "payment_refused").Because((*order).reason)
	return m
}

// chat is a machine with a log and a dynamic choice.
type chat struct {
	sm.Meta
	Messages sm.Log[string] `json:"messages"`
	Next     toolCall       `json:"next,omitzero"`
	Answer   string         `json:"answer,omitempty"`
}

type toolCall struct {
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type prompt struct {
	Messages sm.Log[string] `json:"messages"`
}

type reply struct {
	Text string   `json:"text"`
	Call toolCall `json:"call,omitzero"`
}

const (
	model  sm.Effect[prompt, reply]                    = "model.chat"
	search sm.Effect[json.RawMessage, json.RawMessage] = "tool.search"
)

func (c *chat) prompt() prompt { return prompt{Messages: c.Messages} }
func (c *chat) heard(r reply) {
	c.Messages.Append(r.Text)
	c.Next = r.Call
	if c.Next.Tool == "" {
		c.Answer = r.Text
	}
}
func (c *chat) finished() bool                  { return c.Answer != "" }
func (c *chat) pick() (string, json.RawMessage) { return c.Next.Tool, c.Next.Input }
func (c *chat) observed(r json.RawMessage)      { c.Messages.Append(string(r)) }

func chats() *sm.Machine[chat] {
	m := sm.New[chat]("chat", 2)
	m.State("think", sm.Call(model, (*chat).prompt, (*chat).heard)).
		Visits(40, "lost").
		When((*chat).finished, "done")
	m.State("act", sm.CallOf(sm.ToolNames("tool.search", "tool.clock"), (*chat).pick, (*chat).observed)).Then("think")
	m.Succeed("done")
	m.Fail("lost", "too_many_turns")
	return m
}
