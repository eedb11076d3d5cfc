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

// Campaign is a mailing to so many that it is sent in parts.
type Campaign struct {
	List string `json:"list"`
	Size int    `json:"size"`
	Sent int    `json:"sent"`
}

// Part of a campaign: the recipients [From, To) of a list.
type Part struct {
	List string `json:"list"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Sent int    `json:"sent"`
}

func (c *Campaign) parts() (parts []Part) {
	for from := 0; from < c.Size; from += 500 {
		parts = append(parts, Part{List: c.List, From: from, To: min(from+500, c.Size)})
	}
	return parts
}

func (c *Campaign) sent(_ Part, r sm.Result[Part]) { c.Sent += r.Value.Sent }

func (p *Part) people() (all []int) {
	for i := p.From; i < p.To; i++ {
		all = append(all, i)
	}
	return all
}

func (p *Part) sent(_ int, r sm.Result[bool]) {
	if r.OK() {
		p.Sent++
	}
}

// More than 200 at once: 20 runs, each of which sends 100 mails at once. A part
// says where its recipients are, so no record holds them all.
func ExampleEachChild() {
	const (
		send sm.Effect[int, bool] = "mail.send"
		part sm.Ref[Part, Part]   = "part"
	)
	whole := sm.New[Campaign]("campaign", 1)
	whole.State("send", sm.EachChild((*Campaign).parts, 20, part, nil, (*Campaign).sent))
	whole.Succeed("done")
	one := sm.New[Part]("part", 1)
	one.State("send", sm.Each((*Part).people, 100, send, nil, (*Part).sent))
	one.Succeed("done")
	fmt.Println(whole.Definitions()[0].Diagram())
	// Output:
	// %% campaign version 1
	// stateDiagram-v2
	//     state "send: runs part for each, 20 at once" as send
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
