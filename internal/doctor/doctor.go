// Package doctor looks at what is set in NATS and Redis, and says whether it is
// enough for a fleet.
//
// It changes nothing. What the one who asks may not look at is a finding of its
// own: a permission that is missing looks like a silent server to JetStream's
// clients.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/redisstore"
)

// Status says how bad a finding is.
type Status string

// The statuses, the best first.
const (
	OK      Status = "ok"
	Unknown Status = "unknown" // it cannot be seen from here
	Warn    Status = "warn"    // the fleet works, until something happens
	Fail    Status = "fail"    // the fleet does not work, or loses what it accepted
)

// Finding is one thing that was looked at.
type Finding struct {
	Status Status `json:"status"`
	Check  string `json:"check"` // what was looked at
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"` // what to do about it
}

// Patient is what is examined.
type Patient struct {
	NATS     *nats.Conn         // nil: it was not reached, for Unreached
	Topology natsqueue.Topology // as the fleet's configuration says
	Redis    redisstore.Config  // no address: it is not examined
	Monitor  []string           // URLs of nats-servers' monitoring; what a client cannot see is read there
	Embedded bool               // the servers are those of an embedded fleet
	Timeout  time.Duration      // of one request

	Unreached Finding // why NATS was not reached
}

// Examine returns its findings in the order of the checks. Nothing that is
// wrong with the patient is an error.
func Examine(ctx context.Context, p Patient) []Finding {
	if p.Topology.Prefix == "" {
		p.Topology.Prefix = natsqueue.DefaultPrefix
	}
	x := &exam{Patient: p}
	if x.NATS == nil { // Redis may be well, or be away as well
		f := x.Unreached
		x.note(Fail, "nats", f.Found, f.Fix)
	} else {
		x.nats(ctx)
	}
	x.redis(ctx)
	return x.findings
}

// Worst is the worst status of all.
func Worst(all []Finding) Status {
	order := []Status{OK, Unknown, Warn, Fail}
	worst := OK
	for _, f := range all {
		if slices.Index(order, f.Status) > slices.Index(order, worst) {
			worst = f.Status
		}
	}
	return worst
}

// exam is an examination under way.
type exam struct {
	Patient
	incarnation string // of HISTORY; "" if it could not be read
	heard       error  // what the server had complained of when it was asked last
	findings    []Finding
}

// note adds a finding.
func (x *exam) note(s Status, check, found, fix string) {
	if s == OK {
		fix = ""
	}
	x.findings = append(x.findings, Finding{s, check, found, fix})
}

// first is the worse finding of those that apply; ok if none does.
type first struct {
	status Status
	text   string
	fix    string
}

// when makes it a finding if the condition holds, and none is there yet.
func (f *first) when(holds bool, s Status, fix, format string, args ...any) {
	if holds && f.status == "" {
		f.status, f.text, f.fix = s, fmt.Sprintf(format, args...), fix
	}
}

// judge notes the first of the findings, or that all is well.
func (x *exam) judge(check string, f first, format string, args ...any) {
	if f.status == "" {
		f.status, f.text = OK, fmt.Sprintf(format, args...)
	}
	x.note(f.status, check, f.text, f.fix)
}

// clock judges a clock by what it showed between two moments of ours.
func (x *exam) clock(check string, before, shown, after time.Time) {
	const much, tooMuch = time.Second, time.Minute
	off := shown.Sub(before.Add(after.Sub(before) / 2))
	if shown.After(before) && shown.Before(after) {
		off = 0
	}
	const fix = "synchronise the clocks (chrony, ntpd): deadlines are compared with records' times"
	var f first
	off = off.Round(time.Millisecond)
	f.when(off.Abs() > tooMuch, Fail, fix, "%v off this machine's", off)
	f.when(off.Abs() > much, Warn, fix, "%v off this machine's", off)
	x.judge(check, f, "within %v of this machine's", max(off.Abs(), after.Sub(before)).Round(100*time.Microsecond))
}

// trip judges the time of round trips, by their median.
func (x *exam) trip(check string, all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	median := all[len(all)/2].Round(time.Microsecond)
	const slow = 5 * time.Millisecond
	var f first
	f.when(median > slow, Warn, "put workers and servers close to each other: each step waits for them", "%v", median)
	x.judge(check, f, "%v", median)
}

// trips is how many round trips are timed.
const trips = 15

// atLeast reports whether a version is another or later; what is no version is
// not.
func atLeast(have, want string) bool {
	parse := func(v string) (n [3]int, ok bool) {
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
		for i, part := range strings.SplitN(v, ".", 3) {
			x, err := strconv.Atoi(part)
			if err != nil {
				return n, false
			}
			n[i] = x
		}
		return n, true
	}
	h, ok1 := parse(have)
	w, ok2 := parse(want)
	return ok1 && ok2 && slices.Compare(h[:], w[:]) >= 0
}

// size is a number of bytes for people.
func size[T ~int64 | ~uint64](n T) string {
	v, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return strconv.FormatFloat(v, 'f', map[bool]int{true: 0, false: 1}[unit == 0 || v >= 100], 64) + " " + units[unit]
}

// share is how full something is, in percent.
func share(used, limit float64) float64 { return 100 * used / limit }
