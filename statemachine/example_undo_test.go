package statemachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// Journey is the data of the example.
type Journey struct {
	sm.Meta
	To     string `json:"to"`
	Flight string `json:"flight,omitempty"`
	Hotel  string `json:"hotel,omitempty"`
}

func (j *Journey) to() string            { return j.To }
func (j *Journey) flown(booking string)  { j.Flight = booking }
func (j *Journey) housed(booking string) { j.Hotel = booking }
func (j *Journey) flight() string        { return j.Flight }
func (j *Journey) hotel() string         { return j.Hotel }
func (j *Journey) why() string           { return "no " + j.Cause().State + ": " + j.Cause().Message }

// The effects of the example.
const (
	BookFlight   sm.Effect[string, string]   = "flight.book"
	CancelFlight sm.Effect[string, struct{}] = "flight.cancel"
	BookHotel    sm.Effect[string, string]   = "hotel.book"
	CancelHotel  sm.Effect[string, struct{}] = "hotel.cancel"
	RentCar      sm.Effect[string, string]   = "car.rent"
)

// A journey is booked as a whole or not at all: when there is no car, the hotel
// and the flight are cancelled, and the run has failed.
func ExampleState_Undo() {
	m := sm.New[Journey]("journey", 1)
	m.State("flight", sm.Call(BookFlight, (*Journey).to, (*Journey).flown)).
		Undo(sm.Call(CancelFlight, (*Journey).flight, nil))
	m.State("hotel", sm.Call(BookHotel, (*Journey).to, (*Journey).housed)).
		Undo(sm.Call(CancelHotel, (*Journey).hotel, nil)).
		Catch("sold_out", "cancelled")
	m.State("car", sm.Call(RentCar, (*Journey).to, nil)).
		Catch("sold_out", "cancelled")
	m.Succeed("booked")
	m.Fail("cancelled", "nothing_to_be_had").Because((*Journey).why)

	cancel := func(booking string) (struct{}, error) {
		fmt.Println("cancel", booking)
		return struct{}{}, nil
	}
	r := pawltest.Start(new(testing.T), m, json.RawMessage(`{"to":"Gdynia"}`),
		pawltest.Returns(BookFlight, "flight 7"),
		pawltest.Returns(BookHotel, "room 12"),
		pawltest.On(RentCar, func(string) (string, error) {
			return "", sm.Terminal("sold_out", errors.New("no cars this week"))
		}),
		pawltest.On(CancelHotel, cancel), pawltest.On(CancelFlight, cancel),
	)
	fmt.Println(r.Status(), r.Cause().Message)
	// Output:
	// cancel room 12
	// cancel flight 7
	// failed no car: no cars this week
}
