package client

import (
	"context"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/flow"
)

type (
	// Held is what is held up for the whole fleet: an effect type, a state of a
	// machine, or a flow key of an effect type, by whom and why.
	Held = flow.Notice
	// HoldRequest says what is to be held up, or to go on.
	HoldRequest = api.FlowRequest
)

// What can be held up.
const (
	HoldEffect = flow.KindEffect // an effect type
	HoldState  = flow.KindState  // a state of a machine
	HoldKey    = flow.KindKey    // a flow key of an effect type, for a time
)

// Hold has no more effects begin, in the whole fleet, of an effect type, in a
// state of a machine, or with a flow key; those under way end as they do. It
// may be repeated: the last word counts. ErrNotFound is returned if there is no
// such effect type or machine.
func (c *Client) Hold(ctx context.Context, r HoldRequest) (Held, error) {
	var n Held
	return n, c.call(ctx, "hold "+heldText(r), api.FlowHold, r, &n)
}

// Release lets go on what was held up.
func (c *Client) Release(ctx context.Context, r HoldRequest) (Held, error) {
	var n Held
	return n, c.call(ctx, "release "+heldText(r), api.FlowRelease, r, &n)
}

// AllHeld lists what is held up; complete is false if there are more closed keys
// than can be listed, and then none of them are.
func (c *Client) AllHeld(ctx context.Context) (held []Held, complete bool, err error) {
	var l api.FlowList
	err = c.call(ctx, "list what is held up", api.FlowGet, struct{}{}, &l)
	return l.Held, l.Complete, err
}

func heldText(r HoldRequest) string {
	n := Held{Kind: r.Kind, Effect: r.Effect, Key: r.Key, Machine: r.Machine, State: r.State}
	return n.Subject().String()
}
