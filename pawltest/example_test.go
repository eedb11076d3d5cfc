package pawltest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/pawltest"
	sm "github.com/pawlrun/pawl/statemachine"
)

// Invoice is the data of a small machine.
type Invoice struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
	Receipt  string `json:"receipt,omitempty"`
}

// The effects of the machine.
const (
	Charge sm.Effect[int, string]    = "card.charge"
	Mail   sm.Effect[string, string] = "email.send"
)

func (i *Invoice) amount() int       { return i.Cents }
func (i *Invoice) charged(id string) { i.Receipt = id }
func (i *Invoice) text() string      { return "Paid: " + i.Receipt }

// invoice charges a card, and tells the customer.
func invoice() *sm.Machine[Invoice] {
	m := sm.New[Invoice]("invoice", 1)
	m.State("charge", sm.Call(Charge, (*Invoice).amount, (*Invoice).charged)).Catch("declined", "unpaid")
	m.State("tell", sm.Call(Mail, (*Invoice).text, nil))
	m.Succeed("paid")
	m.Fail("unpaid", "card_declined")
	return m
}

// Example tests a machine whose first effect fails twice before it succeeds.
// The waits between the attempts take no time.
func Example() {
	test := func(t *testing.T) {
		attempts := 0
		r := pawltest.Start(t, invoice(), Invoice{Customer: "Ada", Cents: 1200},
			pawltest.On(Charge, func(cents int) (string, error) {
				if attempts++; attempts < 3 {
					return "", errors.New("the bank does not answer")
				}
				return fmt.Sprintf("receipt for %d", cents), nil
			}),
			pawltest.Returns(Mail, "sent"),
		)
		if r.Status() != sm.StatusSucceeded {
			t.Errorf("status = %s, cause %+v", r.Status(), r.Cause())
		}
		var data Invoice
		r.Data(&data)
		fmt.Println(r.Path(), len(r.Calls("card.charge")), data.Receipt)
		fmt.Println(r.Now().Format("15:04:05"))
	}
	test(new(testing.T)) // go test does this for a function named Test…
	// Output:
	// [charge tell paid] 3 receipt for 1200
	// 00:00:03
}
