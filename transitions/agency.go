package transitions

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/statemachine"
)

// order is the input of travel.book.
type order struct {
	Traveller string `json:"traveller"`
	What      string `json:"what"` // flight, hotel or car
	To        string `json:"to"`
	Nights    int    `json:"nights"`
}

// booking is its result.
type booking struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	Price cents  `json:"price"`
}

// cancellation is the input of travel.cancel.
type cancellation struct {
	Booking string `json:"booking"`
}

// cancelled is its result.
type cancelled struct {
	Booking string `json:"booking"`
}

// agency stands for a travel agency. It has no hotels for more than four weeks
// and no cars for more than two.
type agency struct{ bookings, cancellations *book }

func (a agency) book(_ context.Context, key string, o order) (booking, error) {
	var price cents
	most := 365
	switch o.What {
	case "flight":
		price = 240_00
	case "hotel":
		price, most = 95_00*cents(o.Nights), 28
	case "car":
		price, most = 45_00*cents(o.Nights), 14
	default:
		return booking{}, invalid(fmt.Errorf("%q is no flight, hotel or car", o.What))
	}
	if o.Nights < 1 || o.Nights > most {
		return booking{}, statemachine.Terminal("sold_out", fmt.Errorf("there is no %s in %s for %d nights", o.What, o.To, o.Nights))
	}
	number, _, err := a.bookings.write(key, o)
	if err != nil {
		return booking{}, err
	}
	return booking{ID: fmt.Sprintf("booking-%06d", number), What: o.What, Price: price}, nil
}

func (a agency) cancel(_ context.Context, key string, c cancellation) (cancelled, error) {
	if _, _, err := a.cancellations.write(key, c); err != nil {
		return cancelled{}, err
	}
	return cancelled(c), nil
}
