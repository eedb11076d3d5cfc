package statemachine_test

import (
	"fmt"

	sm "github.com/pawlrun/pawl/statemachine"
)

// Mailing is sent to many, eight at a time.
type Mailing struct {
	To      []string `json:"to"`
	Sent    int      `json:"sent"`
	Refused []string `json:"refused"`
}

func (m *Mailing) people() []string { return m.To }

// sent is called in the order of the people.
func (m *Mailing) sent(to string, r sm.Result[int]) {
	if !r.OK() {
		m.Refused = append(m.Refused, to+": "+r.Cause.Class)
		return
	}
	m.Sent++
}

// A state does something for each of many items; one that is given up is data.
func ExampleEach() {
	const send sm.Effect[string, int] = "mail.send"
	m := sm.New[Mailing]("mailing", 1)
	m.State("send", sm.Each((*Mailing).people, 8, send, nil, (*Mailing).sent))
	m.Succeed("done")
	fmt.Println(m.Definitions()[0].Diagram())
	// Output:
	// %% mailing version 1
	// stateDiagram-v2
	//     state "send: mail.send for each, 8 at once" as send
	//     state "done" as done
	//     [*] --> send
	//     send --> done
	//     done --> [*]
}

// Approval by mail or by text message, whichever is answered first; or a day.
func ExampleAny() {
	type request struct{ By string }
	m := sm.New[request]("request", 1)
	m.State("ask", sm.Any(
		sm.Branch("mail", sm.Signal("mail", func(r *request, who string) { r.By = who })),
		sm.Branch("text", sm.Signal("text", func(r *request, who string) { r.By = who })),
	)).Forever()
	m.Succeed("done")
	fmt.Println(m.Definitions()[0].Check())
	// Output: <nil>
}
