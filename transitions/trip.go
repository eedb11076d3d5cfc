package transitions

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/statemachine"
)

// tripData is what a run of "trip" is about. The first four fields are its
// input.
type tripData struct {
	statemachine.Meta
	Traveller string `json:"traveller"`
	To        string `json:"to"`
	Nights    int    `json:"nights"`
	Budget    cents  `json:"budget"`

	Bookings  []booking `json:"bookings,omitempty"`
	Cancelled []string  `json:"cancelled,omitempty"` // bookings, in the order in which they were
}

// trip books a flight, a hotel and a car: all three within the budget, or none.
// When one is not to be had, or the whole is too dear, or somebody cancels the
// run, what was booked is cancelled, the last first.
func trip() *statemachine.Machine[tripData] {
	m := statemachine.New[tripData]("trip", 1)
	m.Index("traveller", (*tripData).traveller)
	for _, what := range []string{"flight", "hotel", "car"} {
		order := func(t *tripData) order { return order{Traveller: t.Traveller, What: what, To: t.To, Nights: t.Nights} }
		m.State(what, statemachine.Call(travelBook, order, (*tripData).booked)).
			Undo(statemachine.Call(travelCancel, (*tripData).latest, (*tripData).cancelled)).
			Catch("sold_out", "not_to_be_had")
	}
	m.Decide("price").When((*tripData).tooDear, "too_dear")
	m.Succeed("booked")
	m.Fail("not_to_be_had", "sold_out").Because((*tripData).missing)
	m.Fail("too_dear", "over_budget").Because((*tripData).excess)
	return m
}

// Validate says what is wrong with the input.
func (t *tripData) Validate() error {
	var faults []error
	for _, f := range []struct{ name, value string }{{"traveller", t.Traveller}, {"to", t.To}} {
		if f.value == "" || len(f.value) > statemachine.MaxIndex {
			faults = append(faults, fmt.Errorf("%s: 1 to %d bytes are needed, not %q", f.name, statemachine.MaxIndex, clip(f.value)))
		}
	}
	if t.Nights < 1 || t.Nights > 365 {
		faults = append(faults, fmt.Errorf("nights: 1 to 365 are possible, not %d", t.Nights))
	}
	if t.Budget <= 0 {
		faults = append(faults, fmt.Errorf("budget: more than %s is needed", t.Budget))
	}
	if t.Bookings != nil || t.Cancelled != nil {
		faults = append(faults, errors.New("bookings and cancelled are results: they cannot be given"))
	}
	return errors.Join(faults...)
}

func (t *tripData) traveller() string { return t.Traveller }

func (t *tripData) booked(b booking) { t.Bookings = append(t.Bookings, b) }

// latest is the booking just made: what its Undo cancels.
func (t *tripData) latest() cancellation {
	return cancellation{Booking: t.Bookings[len(t.Bookings)-1].ID}
}

func (t *tripData) cancelled(c cancelled) { t.Cancelled = append(t.Cancelled, c.Booking) }

func (t *tripData) price() (sum cents) {
	for _, b := range t.Bookings {
		sum += b.Price
	}
	return sum
}

func (t *tripData) tooDear() bool { return t.price() > t.Budget }

func (t *tripData) missing() string { return t.Cause().Message }

func (t *tripData) excess() string {
	return fmt.Sprintf("the trip costs %s, and the budget is %s", t.price(), t.Budget)
}
