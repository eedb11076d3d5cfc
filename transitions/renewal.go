package transitions

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// renewalData is what a run of "renewal" is about. The first seven fields are
// its input.
type renewalData struct {
	Contract string `json:"contract"`
	Version  int    `json:"version"` // of the contract that is renewed, from 1
	Customer string `json:"customer"`
	To       string `json:"to"` // the customer's e-mail address
	Currency string `json:"currency"`
	Price    cents  `json:"price"`
	// Notice is how long the customer may object, such as "720h". Default: 30 days.
	Notice string `json:"notice,omitempty"`

	Objection string `json:"objection,omitempty"`
	Entry     string `json:"entry,omitempty"` // of the ledger
}

// objection is the payload of the signal "object".
type objection struct {
	Reason string `json:"reason"`
}

const usualNotice = 30 * 24 * time.Hour

// renewal renews a contract: the customer is told, may object for a while, and
// is then charged and told so. The keys name the contract and its version, not
// the run: however many runs there are about one version, it is charged once.
func renewal() *statemachine.Machine[renewalData] {
	m := statemachine.New[renewalData]("renewal", 1)
	m.Index("contract", func(r *renewalData) string { return r.Contract })
	m.Index("customer", func(r *renewalData) string { return r.Customer })
	m.State("announce", statemachine.Call(emailSend, (*renewalData).announcement, nil).Key((*renewalData).announceKey))
	m.State("notice", statemachine.Signal("object", (*renewalData).objects)).
		WithinOf((*renewalData).notice, "charge").
		Then("kept")
	m.State("charge", statemachine.Call(ledgerPost, (*renewalData).posting, (*renewalData).charged).Key((*renewalData).chargeKey))
	m.State("confirm", statemachine.Call(emailSend, (*renewalData).confirmation, nil).Key((*renewalData).confirmKey))
	m.Succeed("renewed")
	m.Fail("kept", "objected").Because(func(r *renewalData) string { return r.Objection })
	return m
}

// Validate says what is wrong with the input.
func (r *renewalData) Validate() error {
	var faults []error
	fault := func(format string, v ...any) { faults = append(faults, fmt.Errorf(format, v...)) }
	for _, f := range []struct{ name, value string }{{"contract", r.Contract}, {"customer", r.Customer}} {
		if f.value == "" || len(f.value) > maxInvoice || strings.ContainsAny(f.value, ": \t\n") {
			fault("%s: 1 to %d bytes without colons and spaces are needed, not %q", f.name, maxInvoice, clip(f.value))
		}
	}
	if r.Version < 1 {
		fault("version: 1 or more is needed, not %d", r.Version)
	}
	if err := checkAddress(r.To); err != nil {
		fault("to: %w", err)
	}
	if len(r.Currency) != 3 {
		fault("currency: three letters are needed, not %q", clip(r.Currency))
	}
	if r.Price <= 0 {
		fault("price: more than %s is needed", r.Price)
	}
	if d, err := time.ParseDuration(r.Notice); r.Notice != "" && (err != nil || d < 0 || d > statemachine.MaxWait) {
		fault("notice: a time such as 720h is needed, at most %s, not %q", statemachine.MaxWait, clip(r.Notice))
	}
	if r.Objection != "" || r.Entry != "" {
		fault("objection and entry are results: they cannot be given")
	}
	return errors.Join(faults...)
}

func (r *renewalData) notice() time.Duration {
	if d, err := time.ParseDuration(r.Notice); err == nil {
		return d
	}
	return usualNotice
}

// of names what a key is about.
func (r *renewalData) of() string { return fmt.Sprintf("%s:%d", r.Contract, r.Version) }

func (r *renewalData) announceKey() string { return "renewal-notice:" + r.of() }
func (r *renewalData) chargeKey() string   { return "renewal:" + r.of() }
func (r *renewalData) confirmKey() string  { return "renewal-mail:" + r.of() }

func (r *renewalData) announcement() letter {
	return letter{To: r.To, Subject: "Contract " + r.Contract + " is about to be renewed",
		Body: fmt.Sprintf("It goes on for %s %s, unless you object within %s.", r.Price, r.Currency, r.notice())}
}

func (r *renewalData) objects(o objection) {
	r.Objection = o.Reason
	if o.Reason == "" {
		r.Objection = "the customer objected"
	}
}

func (r *renewalData) posting() posting {
	return posting{Invoice: r.Contract + "-" + fmt.Sprint(r.Version), Customer: r.Customer, Currency: r.Currency, Subtotal: r.Price, Total: r.Price}
}

func (r *renewalData) charged(p posted) { r.Entry = p.Entry }

func (r *renewalData) confirmation() letter {
	return letter{To: r.To, Subject: "Contract " + r.Contract + " was renewed",
		Body: fmt.Sprintf("%s %s were charged (%s).", r.Price, r.Currency, r.Entry)}
}
