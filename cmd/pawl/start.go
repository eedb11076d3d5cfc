package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// start is the command line of run start.
type start struct {
	*app
	machine string
	id      string
	input   string
	file    string
	version int
	wait    bool

	priority, tenant string
	at               string
	in               time.Duration
	begin            *time.Time // by at or in; nil: at once
}

func (a *app) startCommand() *cobra.Command {
	s := &start{app: a}
	c := &cobra.Command{
		Use:   "start <machine> [-]",
		Short: "Start a run",
		Long: `Start a run and print its id once its start is stored. From then on the run is the
fleet's to carry on, whatever happens to this command; it needs no worker.

With --at or --in the run begins later. It exists at once: pawl run explain says when it begins,
and pawl run cancel takes it back.

Starting an id again with the same input does nothing, and says so. The input is JSON, from
--input, from a file, or from standard input ("-"); without one it is {}.`,
		Example: `  pawl run start report --id report-4412 -f report.json
  jq -n '{steps: [{do: "noop"}]}' | pawl run start kitchensink - --wait
  id=$(pawl run start invoice -f invoice.json)
  pawl run start report --id report-4413 -f report.json --at 2027-01-31T09:00:00+01:00`,
		Args:              startArgs,
		ValidArgsFunction: a.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.machine = args[0]
			if len(args) == 2 {
				s.file = "-"
			}
			return s.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&s.id, "id", "", "id of the run, at most 256 bytes (default: one is made)")
	f.StringVar(&s.input, "input", "", "input as JSON")
	f.StringVarP(&s.file, "file", "f", "", "file with the input; - is standard input")
	f.IntVar(&s.version, "version", 0, "version of the machine (default: the highest)")
	f.StringVar(&s.priority, "priority", "", "high, normal or low: what begins first if not all can (default: normal)")
	f.StringVar(&s.tenant, "tenant", "", "whose run it is: one with few starts does not wait behind one with many")
	f.StringVar(&s.at, "at", "", "when the run is to begin, such as 2027-01-31T09:00:00+01:00 (default: at once)")
	f.DurationVar(&s.in, "in", 0, "how long from now the run is to begin, such as 90m")
	f.BoolVar(&s.wait, "wait", false, "follow the run until it ends; exit 0 only if it succeeds")
	return c
}

func startArgs(cmd *cobra.Command, args []string) error {
	sources := 0
	for _, given := range []bool{len(args) == 2 && args[1] == "-", cmd.Flags().Changed("input"), cmd.Flags().Changed("file")} {
		if given {
			sources++
		}
	}
	if sources > 1 {
		return errors.New("the input is given twice: it is one of --input, --file and -")
	}
	if len(args) == 2 && args[1] == "-" {
		args = args[:1]
	}
	if err := cli.Exactly("machine")(cmd, args); err != nil {
		return err
	}
	if !queue.IsName(args[0]) {
		return fmt.Errorf("%q is no name of a machine", args[0])
	}
	if f := cmd.Flags().Lookup("priority"); f.Changed {
		if _, err := queue.ParsePriority(f.Value.String()); err != nil {
			return fmt.Errorf("--priority: %w", err)
		}
	}
	if f := cmd.Flags().Lookup("tenant"); f.Changed {
		if err := queue.CheckTenant(f.Value.String()); err != nil {
			return fmt.Errorf("--tenant: %w", err)
		}
	}
	at, in := cmd.Flags().Lookup("at"), cmd.Flags().Lookup("in")
	if at.Changed && in.Changed {
		return errors.New("when it begins is given twice: it is one of --at and --in")
	}
	// An empty value is a variable that was not set, not a wish for the default.
	if id := cmd.Flags().Lookup("id"); id.Changed && id.Value.String() == "" {
		return errors.New("--id is empty: leave it off to have an id made")
	}
	if version := cmd.Flags().Lookup("version"); version.Changed && version.Value.String() == "0" {
		return errors.New("--version is a number from 1: leave it off for the highest")
	}
	return nil
}

func (s *start) run(ctx context.Context) error {
	m, err := s.message()
	if err != nil {
		return err
	}
	f, err := s.Open(ctx, "pawl run start")
	if err != nil {
		return err
	}
	defer f.Close()
	if s.wait {
		return s.follow(ctx, f, m)
	}
	var started api.Started
	err = s.ask(ctx, f, api.RunsStart, api.StartRequest{
		Machine: s.machine, ID: s.id, Version: s.version, Input: m.Data, Priority: queue.Priority(s.priority), Tenant: s.tenant, At: s.begin, Timeout: s.patience(),
	}, &started)
	answer, isAnswer := errors.AsType[*api.Error](err)
	refused, isRefused := errors.AsType[*cli.Error](err)
	row := startedRow{Run: s.id, Outcome: started.Outcome, Status: started.Status, Note: started.Note}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case isAnswer && answer.Class == api.ClassFull:
		return full(s.id, err)
	case isAnswer && answer.Code != 503 && answer.Code != 403:
		err = advise(named(err, "start run "+s.id, s.id))
		if e, ok := errors.AsType[*cli.Error](err); ok && answer.Code == 422 {
			e.Hint = "dlq-replayer ls --run " + s.id
		}
		return err
	case !isAnswer && !isRefused && !errors.Is(err, errNobody):
		return err
	default:
		// Nobody answers, or not to us: whoever may publish a start needs nobody.
		ack, err := s.publish(ctx, f, m)
		if err != nil {
			return err
		}
		row.Outcome, row.Stream, row.Sequence = api.OutcomeAccepted, ack.Stream, ack.Sequence
		if known, err := f.Queue.Machines.Known(ctx, s.machine, s.version); err == nil && !known {
			row.Note = "no worker has registered machine " + s.machine
		}
	}
	if s.JSON() {
		return s.PrintJSON(row)
	}
	switch {
	case errors.Is(err, errNobody):
		s.sayNobody(err)
		if row.Note != "" {
			fmt.Fprintln(s.Stderr, "accepted:", row.Note)
		}
	case isAnswer:
		fmt.Fprintln(s.Stderr, "accepted:", cli.Clean(answer.Message)+": it will be carried out once")
	case isRefused:
		fmt.Fprintln(s.Stderr, "accepted: the workers may not be asked for more:", cli.Clean(refused.Error()))
	case row.Outcome == api.OutcomeAccepted:
		fmt.Fprintln(s.Stderr, "accepted:", cmp.Or(row.Note, "no worker has taken it yet"))
	case row.Outcome == api.OutcomeExists:
		fmt.Fprintf(s.Stderr, "run %s exists, by the same start: it %s\n", cli.Clean(s.id), being(row.Status))
	}
	_, err = fmt.Fprintln(s.Stdout, s.id)
	return err
}

// startedRow is what became of a start, for programs.
type startedRow struct {
	Run      string              `json:"run"`
	Outcome  api.Outcome         `json:"outcome"`          // created, exists or accepted
	Status   statemachine.Status `json:"status,omitempty"` // of the run, unless accepted
	Stream   string              `json:"stream,omitempty"` // where the start lies, if this tool stored it
	Sequence uint64              `json:"sequence,omitempty"`
	Note     string              `json:"note,omitempty"` // why it may take long
}

// follow stores the start and follows the run.
func (s *start) follow(ctx context.Context, f *cli.Fleet, m *nats.Msg) error {
	w := &waiter{follower: follower{app: s.app, fleet: f, id: s.id}, machine: s.machine, began: s.Now()}
	if err := w.before(ctx); err != nil {
		return err
	}
	ack, err := s.publish(ctx, f, m)
	if err != nil {
		return err
	}
	if !s.JSON() {
		fmt.Fprintln(s.Stdout, s.id)
	}
	return w.wait(ctx, ack)
}

// message is what any producer publishes.
func (s *start) message() (*nats.Msg, error) {
	if s.id == "" {
		s.id = s.machine + "-" + queue.NewID()
	}
	if err := checkRun(s.id); err != nil {
		return nil, cli.UsageErrorf("choose another with --id", "--id: %w", err)
	}
	if err := s.beginning(); err != nil {
		return nil, err
	}
	if s.version < 0 {
		return nil, cli.UsageErrorf("versions count from 1", "--version is %d", s.version)
	}
	body, err := s.body(s.input, s.file, "--input", "{}")
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(s.Prefix + ".start." + s.machine)
	m.Header.Set("Pawl-Run-Id", s.id)
	if s.version > 0 {
		m.Header.Set("Pawl-Machine-Version", strconv.Itoa(s.version))
	}
	if s.priority != "" {
		m.Header.Set("Pawl-Priority", s.priority)
	}
	if s.tenant != "" {
		m.Header.Set("Pawl-Tenant", s.tenant)
	}
	if s.begin != nil {
		m.Header.Set("Pawl-Start-At", s.begin.Format(time.RFC3339Nano))
	}
	m.Data = body
	return m, nil
}

// beginning is when the run is to begin.
func (s *start) beginning() error {
	var at time.Time
	flag := "--at"
	var err error
	switch {
	case s.at != "":
		at, err = queue.ParseStartAt(s.at)
	case s.in < 0:
		return cli.UsageErrorf("leave it off to start at once", "--in is %s, before now", s.in)
	case s.in > 0:
		flag, at = "--in", time.Now().Add(s.in)
		err = queue.CheckStartAt(at)
	default:
		return nil
	}
	if err != nil {
		return cli.UsageErrorf("at most ten years ahead", "%s: %w", flag, err)
	}
	s.begin = &at
	return nil
}

// publish stores the start. The outcome of a publish that got no answer is
// unknown; it may be repeated with the same id.
func (s *start) publish(ctx context.Context, f *cli.Fleet, m *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	ack, err := f.JetStream.PublishMsg(ctx, m)
	switch {
	case err == nil:
		return ack, nil
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return nil, &cli.Error{Err: fmt.Errorf("start run %s: no stream takes %s", s.id, m.Subject), Hint: "is --prefix right? if so, create the streams with: pawl provision"}
	case errors.Is(err, nats.ErrMaxPayload), strings.Contains(err.Error(), "message size exceeds"):
		return nil, &cli.Error{Err: fmt.Errorf("start run %s: the input has %d bytes: %w", s.id, len(m.Data), err), Hint: "at most 900 KB are taken"}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &cli.Error{Err: fmt.Errorf("start run %s: no answer within %v, it may have been started", s.id, s.Timeout), Hint: "repeat with --id " + s.id + ": it starts once"}
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && strings.HasPrefix(e.Description, "maximum ") {
		return nil, full(s.id, err)
	}
	return nil, fmt.Errorf("start run %s: %w", s.id, err)
}

// full is what it means that starts are not drained.
func full(run string, err error) error {
	return &cli.Error{Err: named(err, "start run "+run, run), Hint: "nothing was started; the queue of starts has no room: pawl doctor"}
}
