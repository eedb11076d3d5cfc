package natsqueue

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
	"github.com/pawlrun/pawl/worker"
)

// TestSend checks that what is sent is read as what it is, for any run id.
func TestSend(t *testing.T) {
	t.Parallel()
	f := one(t)
	s := f.q.Sender
	why := statemachine.Command{By: "anna", Reason: "a \"reason\"\nof two lines", Effect: "e1"}
	for _, run := range append(slices.Clone(oddRuns), strings.Repeat("z", 250)) {
		odd := inHeader("", run) != nil
		if seq, err := s.Start(t.Context(), api.Start{Machine: "sink", Run: run, Version: 3, Input: []byte(`{"a":1}`)}); (err != nil) != odd || (seq == 0) != odd {
			t.Errorf("start %q: %d, %v", run, seq, err)
		} else if !odd {
			if m := f.fetch1(ConsumerStart); m.Fault != nil || m.Kind != queue.Start || m.Run != run || m.Machine != "sink" || m.Version != 3 || string(m.Body) != `{"a":1}` || m.Seq != seq {
				t.Errorf("start %q came as %+v", run, m)
			} else if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Signal(t.Context(), api.SignalTo{Run: run, Name: "hurry", ID: "s1", Body: []byte(`1`)}); err != nil {
			t.Errorf("signal to %q: %v", run, err)
		} else if m := f.fetch1(ConsumerSignal); m.Fault != nil || m.Kind != queue.Signal || m.Run != run || m.Name != "hurry" || m.ID != "s1" || string(m.Body) != `1` {
			t.Errorf("signal to %q came as %+v", run, m)
		} else if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
		if err := s.Command(t.Context(), api.Command{Run: run, Kind: statemachine.EventRedrive, ID: "r1", Command: why}); err != nil {
			t.Errorf("command to %q: %v", run, err)
			continue
		}
		m := f.fetch1(ConsumerEvent)
		if c, err := statemachine.ParseCommand(statemachine.EventKind(m.Name), m.Body); m.Fault != nil || m.Kind != queue.Event || m.Run != run || m.ID != "r1" || !reflect.DeepEqual(c, why) || err != nil {
			t.Errorf("command to %q came as %+v", run, m)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSendRefuses checks that what no run can take is not sent.
func TestSendRefuses(t *testing.T) {
	t.Parallel()
	f := one(t)
	s := f.q.Sender
	start := func(a api.Start) error { _, err := s.Start(t.Context(), a); return err }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{start(api.Start{Machine: "Sink", Run: "r"}), `start run "r": machine name "Sink" is not [a-z][a-z0-9_-]{0,63}`},
		{start(api.Start{Machine: "sink"}), `start run "": run id is empty`},
		{start(api.Start{Machine: "sink", Run: " r"}), `start run " r": run id " r" has control characters, or blanks at its ends`},
		{s.Signal(t.Context(), api.SignalTo{Run: "r", Name: "a.b", ID: "s"}), `signal "a.b" to run "r": signal name "a.b" is not [a-z][a-z0-9_-]{0,63}`},
		{s.Signal(t.Context(), api.SignalTo{Run: "r", Name: "a"}), `signal "a" to run "r": signal id is empty`},
		{s.Command(t.Context(), api.Command{Run: "r", Kind: statemachine.EventCancel}), `cancel run "r": request id is empty`},
		{s.Command(t.Context(), api.Command{Run: "r", Kind: statemachine.EventCancel, ID: "a\nb"}), `cancel run "r": request id "a\nb" has control characters, or blanks at its ends`},
		{s.Command(t.Context(), api.Command{Run: "r", Kind: "stop", ID: "1"}), `stop run "r": no command is called "stop"`},
		{s.Command(t.Context(), api.Command{Run: "r", Kind: statemachine.EventPause, ID: "1", Command: statemachine.Command{Effect: "e"}}), `pause run "r": pause: effect is for a redrive, a resolve, a confirm, or a resume that names a state only`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("error %v, want %s", tt.err, tt.want)
		}
	}
	for _, stream := range []string{streamStart, streamSignal, streamEvents} {
		if n := f.messages(stream); n != 0 {
			t.Errorf("%s has %d messages, want none", stream, n)
		}
	}
}

// TestSendWhatIsNotTaken checks that each reason is said in one line, and can
// be told from the others.
func TestSendWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	n := natstest.One(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "all"},
			{Username: "reader", Password: "reader", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
			}},
		}
	})
	nc := n.Conn(nats.UserInfo("all", "all"))
	provisioned(t, nc, Topology{Limits: Limits{SignalMsgs: 1}})
	opts := Options{Quiet: 2 * time.Second, Patience: 3 * time.Second}
	s := opened(t, nc, opts).Sender
	reader := opened(t, n.Conn(nats.UserInfo("reader", "reader"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), opts).Sender
	start := func(s *Sender, size int) error {
		_, err := s.Start(t.Context(), api.Start{Machine: "sink", Run: "r", Input: []byte(`"` + strings.Repeat("x", size) + `"`)})
		return err
	}
	signal := api.SignalTo{Run: "r", Name: "hurry", ID: "1"}
	if err := s.Signal(t.Context(), signal); err != nil {
		t.Fatal(err)
	}
	full := s.Signal(t.Context(), signal)
	forbidden := reader.Command(t.Context(), api.Command{Run: "r", Kind: statemachine.EventPause, ID: "1"})
	if err := s.js.DeleteStream(t.Context(), s.subj.stream(streamEvents)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		err  error
		is   error
		want string
	}{
		{"larger than the stream takes", start(s, 901<<10), api.ErrTooLarge, "message size exceeds maximum allowed"},
		{"larger than the server takes", start(s, 9<<20), api.ErrTooLarge, "maximum payload exceeded"},
		{"full", full, api.ErrFull, "PAWL_SIGNAL is full, nothing was stored"},
		{"no permission", forbidden, worker.ErrUnavailable, "ermission"},
		{"no stream", s.Command(t.Context(), api.Command{Run: "r", Kind: statemachine.EventPause, ID: "1"}), ErrMissing, "stream PAWL_EVENTS is missing: run `pawl provision`"},
	} {
		if !errors.Is(tt.err, tt.is) || !strings.Contains(tt.err.Error(), tt.want) || strings.Contains(tt.err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}
