package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/bulk"
	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/queue"
)

// Stopped is the exit code of a change of many things that ended early, since
// those that were changed did not go well.
const Stopped = 7

// mostReason is the size of a reason that a record takes.
const mostReason = 2 << 10

// Bulk is what commands share that change many things at once.
type Bulk struct {
	*Tool
	What    string // for the audit record: "redrive letters"
	Done    string // what is said of those that were changed: "re-driven"
	Things  string // "letters"
	Reason  string
	By      string // as it is recorded
	Yes     bool
	Options bulk.Options
}

// Flags adds the flags of a change.
func (b *Bulk) Flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.Reason, "reason", "", "why, for the record: needed, at most 2 KB")
	f.StringVar(&b.By, "by", "", "who asks, recorded as unverified:<by> (default: the user of this machine)")
	b.PaceFlags(c)
}

// PaceFlags adds those that say how many, and how fast.
func (b *Bulk) PaceFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&b.Yes, "yes", false, "more than one may be changed")
	f.Float64Var(&b.Options.Rate, "rate", 100, "at most so many a second; 0: as fast as it goes")
	f.IntVar(&b.Options.Limit, "limit", 0, "at most so many; 0: all")
}

// WatchFlags adds the flags of a change whose outcome is looked at.
func (b *Bulk) WatchFlags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&b.Options.Canary, "canary", 0, "change so many first, and go on only if all of them go well")
	f.Float64Var(&b.Options.StopRatio, "stop-on-failure-ratio", 0, "stop when this share of the outcomes is bad, such as 0.2; of 20 or more, and at most 1,000 are looked at at a time")
	f.DurationVar(&b.Options.Wait, "wait", 2*time.Minute, "how long outcomes are waited for, of the canary and in the end")
}

// Check says what is wrong with the flags of a change.
func (b *Bulk) Check(command string) error {
	hint := "see " + command + " --help"
	switch o := b.Options; {
	case strings.TrimSpace(b.Reason) == "":
		return UsageErrorf(hint, "--reason is missing: why is this done?")
	case len(b.Reason) > mostReason:
		return UsageErrorf(hint, "--reason has %d bytes, over %d", len(b.Reason), mostReason)
	case o.Rate < 0 || o.Limit < 0 || o.Canary < 0 || o.Wait < 0:
		return UsageErrorf(hint, "--rate, --limit, --canary and --wait are not below 0")
	case o.StopRatio < 0 || o.StopRatio > 1:
		return UsageErrorf(hint, "--stop-on-failure-ratio %v is not between 0 and 1", o.StopRatio)
	}
	b.By = api.Unverified + cmp.Or(b.By, b.User())
	return nil
}

// noted is what of the options goes into the audit record.
type noted struct {
	Selected  any     `json:"selected"`
	Limit     int     `json:"limit,omitempty"`
	Rate      float64 `json:"rate,omitempty"`
	Canary    int     `json:"canary,omitempty"`
	StopRatio float64 `json:"stop_ratio,omitempty"`
	Edit      string  `json:"edit,omitempty"`
}

// RunBulk carries out a job, or its plan, on the audit record, and prints what
// it came to. Selected is what was asked for, as it is to be recorded.
func RunBulk[T any](ctx context.Context, b *Bulk, f *Fleet, job *bulk.Job[T], plan bool, selected any, edit string) error {
	job.Options = b.Options
	began, told := b.Now(), b.Now()
	job.Progress = func(r bulk.Report) {
		if now := b.Now(); now.Sub(told) >= progressEvery {
			told = now
			fmt.Fprintln(b.Stderr, b.sum(&r)+", "+now.Sub(began).Round(time.Second).String())
		}
	}
	if plan {
		r, err := job.Plan(ctx)
		return b.tell(r, err)
	}
	o := b.Options
	selection, err := json.Marshal(noted{selected, o.Limit, o.Rate, o.Canary, o.StopRatio, edit})
	if err != nil {
		return err
	}
	line := bulk.Entry{ID: queue.NewID(), What: b.What, By: b.By, Reason: b.Reason}
	write := func(ctx context.Context, step string, with func(*bulk.Entry)) error {
		e := line
		e.Step, e.At = step, b.Now().UTC()
		with(&e)
		err := f.Queue.Audit.Write(ctx, e)
		if errors.Is(err, natsqueue.ErrMissing) {
			return &Error{Err: err, Hint: "nothing is changed without an audit record; create its stream with: pawl provision"}
		}
		return err
	}
	if err := write(ctx, bulk.StepBegin, func(e *bulk.Entry) { e.Selection = selection }); err != nil {
		return err
	}
	job.Note = func(ctx context.Context, names []string) error {
		return write(ctx, bulk.StepItems, func(e *bulk.Entry) { e.Items = names })
	}
	r, err := job.Run(ctx)
	r.Audit = line.ID
	// Who is interrupted has changed something all the same.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Timeout)
	defer cancel()
	unsaid := write(last, bulk.StepEnd, func(e *bulk.Entry) {
		if e.Report = r; err != nil {
			e.Error = Clean(err.Error())
		}
	})
	return b.tell(r, errors.Join(err, unsaid))
}

// progressEvery is how often one who waits is told how far it is.
const progressEvery = 5 * time.Second

// tell prints a report, and returns what the exit code is made of.
func (b *Bulk) tell(r *bulk.Report, err error) error {
	if e := b.print(r); e != nil {
		return e
	}
	switch {
	case err != nil:
		if !r.Planned && r.Changed > 0 {
			fmt.Fprintln(b.Stderr, b.sum(r)+"; the same command goes on from here")
		}
		return err
	case r.Selected == 0:
		return fmt.Errorf("no %s are selected", b.Things)
	}
	fmt.Fprintln(b.Stderr, b.sum(r))
	switch {
	case r.Stopped != "":
		return &Error{Err: fmt.Errorf("stopped: %s", r.Stopped), Hint: "the rest is as it was", Code: Stopped}
	case r.Refused > 0 && !r.Planned:
		return ErrSilent
	}
	return nil
}

func (b *Bulk) print(r *bulk.Report) error {
	if b.JSON() {
		return b.PrintJSON(r)
	}
	t := b.PrintTable("COUNT", "WHAT", "SUCH AS")
	for _, what := range bulk.Sorted(r.Changes) {
		if err := t.Row(r.Changes[what].Count, what, strings.Join(r.Changes[what].Examples, ", ")); err != nil {
			return err
		}
	}
	for _, why := range bulk.Sorted(r.Reasons) {
		if err := t.Row(r.Reasons[why].Count, "refused: "+why, strings.Join(r.Reasons[why].Examples, ", ")); err != nil {
			return err
		}
	}
	_, err := t.End()
	return err
}

// sum is a report in one line.
func (b *Bulk) sum(r *bulk.Report) string {
	done := b.Done
	if r.Planned {
		done = "would be " + done
	}
	things := b.Things
	if r.Selected == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	s := fmt.Sprintf("%d %s selected, %d %s, %d refused", r.Selected, things, r.Changed, done, r.Refused)
	if r.Good+r.Bad+r.Open > 0 {
		s += fmt.Sprintf("; of those looked at, %d went well, %d failed, %d are undecided", r.Good, r.Bad, r.Open)
	}
	return s
}
