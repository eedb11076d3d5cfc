package statemachine_test

import (
	"testing"

	sm "github.com/pawlrun/pawl/statemachine"
)

// The same fault has the same fingerprint, whatever differs from one time to
// the next; another fault has another.
func TestFaultPrint(t *testing.T) {
	print := func(message string) string { return sm.FaultPrint("order", "pay", "card.pay", "error", message) }
	same := [][]string{
		{`order 4412 is unknown`, `order 7 is unknown`, `order ORD-2024-7 is unknown`, `order 3f2b8c1e-7a44-4c0e-9a51-1d2e3f4a5b6c is unknown`, `order deadbeef is unknown`},
		{`no customer "Ada"`, `no customer "O'Hara \"x\""`, `no customer 'Bob'`, "no customer `eve`"},
		{`dial tcp 10.0.0.7:443: connection refused`, `dial tcp [2001:db8::1]:443: connection refused`, `dial tcp db-3.internal:5432: connection refused`},
		{`Post "http://127.0.0.1:4001/a": EOF`, `Post "https://shop.example/pay?id=9": EOF`},
		{`get https://a.example/x refused`, `get http://b.example/ refused`},
		{`ada@shop.example bounced`, `bob@shop.example bounced`},
		{`lines 1, 2, 3 are bad`, `lines 4, 5 are bad`},
		{"boom at 0xc000123\ngoroutine 7 [running]:\nmain.go:12", "boom at 0xc000fff\ngoroutine 99 [running]:\nmain.go:14", "boom at  0x1 "},
	}
	seen := map[string]string{}
	for _, group := range same {
		for _, m := range group {
			if print(m) != print(group[0]) {
				t.Errorf("%q and %q have different fingerprints", group[0], m)
			}
		}
		if other, ok := seen[print(group[0])]; ok {
			t.Errorf("%q and %q have the same fingerprint", other, group[0])
		}
		seen[print(group[0])] = group[0]
	}
	for _, m := range []string{`card refused`, `card expired`, `the customer can't pay`, `the customer won't pay`} {
		if other, ok := seen[print(m)]; ok {
			t.Errorf("%q and %q have the same fingerprint", other, m)
		}
		seen[print(m)] = m
	}
	whole := sm.FaultPrint("order", "pay", "card.pay", "error", "no")
	for _, other := range []string{
		sm.FaultPrint("refund", "pay", "card.pay", "error", "no"), sm.FaultPrint("order", "ship", "card.pay", "error", "no"),
		sm.FaultPrint("order", "pay", "card.charge", "error", "no"), sm.FaultPrint("order", "pay", "card.pay", "timeout", "no"),
	} {
		if other == whole {
			t.Error("machine, state, effect and class do not all count")
		}
	}
	if want := "X--OvqXxannoRfE1PD5euw"; whole != want { // what a letter says today is found by it next year
		t.Errorf("the fingerprint is %s, want %s for ever", whole, want)
	}
}
