// Package schedule starts runs again and again: by a cron line in a time zone,
// or at an interval.
//
// A schedule is a run of a machine of this package. It sleeps until its next
// time, starts a run by an effect, and goes on; so it is shown, explained,
// paused, resumed and cancelled as any run is, and lives through whatever a run
// lives through. The run that it starts has an id that is made of the
// schedule's name and the time, so each time starts one run, however often it
// is tried.
package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a worker's image may have no time zones

	"github.com/robfig/cron/v3"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// Overlap says what is done about a time at which the run before has not ended.
type Overlap string

// The policies.
const (
	Skip  Overlap = "skip"  // nothing is started
	Queue Overlap = "queue" // it starts when the run before has ended; one waits, more are skipped
	Allow Overlap = "allow" // it starts beside it
)

const (
	usualCatchUp = time.Hour
	leastEvery   = time.Second
	mostEvery    = 366 * 24 * time.Hour
)

// Spec is when a schedule starts what: the input of its run.
type Spec struct {
	Name string `json:"name"`           // of the schedule; what it starts is <name>@<time>
	Cron string `json:"cron,omitempty"` // five fields, or @hourly, @daily, @weekly, @monthly, @yearly
	// Zone is that of the cron line, such as Europe/Berlin; default UTC. An hour
	// that the clocks leave out does not come, one that they repeat comes twice.
	Zone    string                `json:"zone,omitempty"`
	Every   statemachine.Duration `json:"every,omitempty"`
	Overlap Overlap               `json:"overlap,omitempty"` // default skip
	// CatchUp is how late a run may be started, when workers were away or the
	// schedule was paused; what is older is missed. Default 1h.
	CatchUp *statemachine.Duration `json:"catch_up,omitempty"`

	Machine  string          `json:"machine"` // of the runs
	Version  int             `json:"version,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // default {}
	Priority queue.Priority  `json:"priority,omitempty"`
	Tenant   string          `json:"tenant,omitempty"`
}

// Check says all that is wrong with a schedule.
func (s *Spec) Check() error {
	var errs []error
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []struct{ what, is string }{{"name", s.Name}, {"machine", s.Machine}} {
		if !queue.IsName(name.is) {
			addf("%s %.64q is not %s", name.what, name.is, queue.NameGrammar)
		}
	}
	switch {
	case (s.Cron == "") == (s.Every == 0):
		addf("give one of cron and every")
	case s.Cron != "":
		if _, err := s.cron(); err != nil {
			errs = append(errs, err)
		}
	default:
		if d := time.Duration(s.Every); d < leastEvery || d > mostEvery {
			addf("every is %s: it is %s to %s", d, leastEvery, mostEvery)
		}
		if s.Zone != "" {
			addf("zone is that of a cron line")
		}
	}
	switch s.Overlap {
	case "", Skip, Queue, Allow:
	default:
		addf("overlap %.64q is not skip, queue or allow", s.Overlap)
	}
	if c := s.catchUp(); c < 0 || c > statemachine.MaxWait {
		addf("catch_up is %s: it is 0s to %s", c, statemachine.MaxWait)
	}
	if s.Version < 0 {
		addf("version is %d: they count from 1", s.Version)
	}
	if s.Priority != "" {
		if _, err := queue.ParsePriority(string(s.Priority)); err != nil {
			errs = append(errs, err)
		}
	}
	if s.Tenant != "" {
		errs = append(errs, queue.CheckTenant(s.Tenant))
	}
	if len(s.Input) > statemachine.MaxData/3 {
		addf("input has %d bytes: at most %d are kept for the runs to come", len(s.Input), statemachine.MaxData/3)
	}
	return errors.Join(errs...)
}

// cron reads the cron line.
func (s *Spec) cron() (cron.Schedule, error) {
	zone, err := s.location()
	if err != nil {
		return nil, err
	}
	if strings.Contains(s.Cron, "=") || strings.HasPrefix(s.Cron, "@every") {
		return nil, fmt.Errorf("cron %.64q: the time zone is given as zone, an interval as every", s.Cron)
	}
	line, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(s.Cron)
	if err != nil {
		return nil, fmt.Errorf("cron %.64q: %w", s.Cron, err)
	}
	if line.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, zone)).IsZero() {
		return nil, fmt.Errorf("cron %.64q never comes", s.Cron)
	}
	return line, nil
}

func (s *Spec) location() (*time.Location, error) {
	if s.Zone == "Local" { // each worker's own
		return nil, errors.New(`zone "Local" is another one on every worker`)
	}
	zone, err := time.LoadLocation(s.Zone) // "" is UTC
	if err != nil {
		return nil, fmt.Errorf("zone %.64q is not known", s.Zone)
	}
	return zone, nil
}

func (s *Spec) catchUp() time.Duration {
	if s.CatchUp == nil {
		return usualCatchUp
	}
	return time.Duration(*s.CatchUp)
}

// Next is the first time after another one, in UTC. An interval is counted from
// the year one: every hour is at full hours.
func (s *Spec) Next(after time.Time) (time.Time, error) {
	if every := time.Duration(s.Every); every > 0 {
		return after.UTC().Truncate(every).Add(every), nil
	}
	line, err := s.cron()
	if err != nil {
		return time.Time{}, err
	}
	zone, _ := s.location() // the line was read in it
	return line.Next(after.In(zone)).UTC(), nil
}

// Run is the id of the run that is started for a time.
func (s *Spec) Run(at time.Time) string { return s.Name + "@" + at.UTC().Format(time.RFC3339Nano) }
