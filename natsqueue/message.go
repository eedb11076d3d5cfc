package natsqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/queue"
)

const (
	shortIncarnation = 4   // characters of it in an id that is made
	mostID           = 256 // bytes of the id of a signal
)

// read turns a delivery into a message. What cannot be understood becomes its
// Fault, in one line that names what is wrong.
func (s *Source) read(m *nats.Msg, incarnation string) queue.Message {
	q := queue.Message{
		Body:     m.Data,
		Subject:  m.Subject,
		Headers:  headersOf(m),
		Delivery: &delivery{nc: s.nc, reply: m.Reply},
	}
	meta, err := m.Metadata()
	if err != nil {
		q.Fault = fmt.Errorf("a message without a place in a stream: %w", err)
		return q
	}
	q.Seq, q.Time, q.Delivered = meta.Sequence.Stream, meta.Timestamp, int(meta.NumDelivered)
	q.Behind = int(meta.NumPending)
	q.Letter, q.Redrives = redriveOf(m.Header.Get(headerRedrive))
	if len(incarnation) > shortIncarnation {
		incarnation = incarnation[:shortIncarnation]
	}
	q.Fault = s.fill(&q, incarnation, m.Header.Get(headerPlace))
	if q.Kind == queue.Effect && q.Tries == 0 { // it was postponed before
		q.Tries, _ = strconv.Atoi(m.Header.Get(headerTries))
		before, _ := strconv.Atoi(m.Header.Get(headerBefore))
		q.Delivered += max(before, 0)
	}
	return q
}

// fill reads what the kind of message has, from its subject, headers and body;
// place is that of a start in line.
func (s *Source) fill(q *queue.Message, incarnation, place string) error {
	t := s.subj.tokens(q.Subject)
	switch {
	case len(t) == 2 && t[0] == "start":
		return fillStart(q, t[1], incarnation)
	case len(t) == 4 && t[0] == "line":
		return s.fillLined(q, t[3], place)
	case len(t) == 3 && t[0] == "signal":
		return fillSignal(q, t[1], t[2], incarnation)
	case len(t) == 2 && t[0] == "result":
		return s.fillResult(q, t[1])
	case len(t) == 3 && t[0] == "event":
		return fillEvent(q, t[2])
	case len(t) == 5 && t[0] == "effect":
		return fillEffect(q, effectOf(t[1]), t[3], t[4])
	case len(t) == 3 && t[0] == "due" && t[1] == "later":
		return s.fillLater(q)
	case len(t) == 5 && t[0] == "due":
		return fillDue(q, t[2], t[3], t[4])
	}
	return fmt.Errorf("subject %s is none of this fleet", quoted(q.Subject))
}

func fillStart(q *queue.Message, machine, incarnation string) error {
	q.Kind, q.Machine = queue.Start, machine
	run, given, err := idFrom(q.Headers, mostID, headerRun, headerMsgID)
	if !given {
		run = machine + "-" + incarnation + "-" + strconv.FormatUint(q.Seq, 10)
	}
	if err == nil {
		err = queue.CheckRun(run)
	}
	if err == nil {
		q.Run = run
	}
	errs := []error{err, checkName("machine", machine)}
	if v, ok := q.Headers[headerVersion]; ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s is %s, not a version from 1", headerVersion, quoted(v)))
		}
		q.Version = n
	}
	return first(append(errs, fillStanding(q))...)
}

// fillStanding reads by what a start is put in line, and when it is to begin.
func fillStanding(q *queue.Message) error {
	var errs []error
	q.Priority = queue.Normal
	if v, ok := q.Headers[headerPriority]; ok {
		var err error
		if q.Priority, err = queue.ParsePriority(v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", headerPriority, err))
		}
	}
	if v, ok := q.Headers[headerTenant]; ok {
		q.Tenant = v
		if err := queue.CheckTenant(v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", headerTenant, err))
		}
	}
	if v, ok := q.Headers[headerStartAt]; ok {
		at, err := queue.ParseStartAt(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", headerStartAt, err))
		}
		q.StartAt = &at
	}
	return first(errs...)
}

func fillSignal(q *queue.Message, token, name, incarnation string) error {
	q.Kind, q.Name = queue.Signal, name
	run, err := runOf(q, token)
	q.Run = run
	id, given, bad := idFrom(q.Headers, mostID, headerSignal, headerMsgID)
	if !given {
		id = "sig-" + incarnation + "-" + strconv.FormatUint(q.Seq, 10)
	}
	if bad == nil {
		q.ID = id
	}
	return first(err, bad)
}

// fillResult reads which try a result is of: its token says so.
func (s *Source) fillResult(q *queue.Message, token string) error {
	q.Kind = queue.Result
	var secret []byte
	if p := s.secret.Load(); p != nil {
		secret = *p
	}
	c, ok := queue.ParseCallback(secret, token)
	if !ok {
		return errors.New("the token is none that this fleet gave out")
	}
	q.Run, q.ID, q.Try = c.Run, c.Effect, c.Try
	switch {
	case q.Headers[queue.HeaderOutcome] == queue.OutcomeHeartbeat:
		q.Name = queue.OutcomeHeartbeat
	case q.Headers[queue.HeaderFailureCode] != "":
		q.Name = queue.OutcomeFailure
	default:
		q.Name = queue.OutcomeResult
	}
	return nil
}

func fillEvent(q *queue.Message, token string) error {
	q.Kind, q.Name = queue.Event, q.Headers[headerName]
	if _, ok := q.Headers[headerParent]; ok || q.Name == nameChild { // written by us, as any text in a header
		var err error
		if q.Headers[headerRun], err = textOf(q.Headers[headerRun]); err != nil {
			return err
		}
	}
	run, err := runOf(q, token)
	q.Run = run
	switch {
	case err != nil:
	case q.Name == nameStart:
		return fillChildStart(q)
	case q.Name == nameChild:
		return fillAnswer(q)
	}
	if err == nil {
		q.Parent, err = parentOf(q)
	}
	id, given, bad := idFrom(q.Headers, mostID, headerEvent, headerMsgID)
	if !given {
		bad = fmt.Errorf("%s is missing", headerEvent)
	}
	if bad == nil {
		q.ID = id
	}
	return first(err, bad)
}

func fillEffect(q *queue.Message, effect, token, id string) error {
	q.Kind, q.Name = queue.Effect, effect
	w, err := wakeOf(q, token, id)
	if err == nil && w.Type != effect {
		err = fmt.Errorf("the body asks for %s, the subject for %s", quoted(w.Type), quoted(effect))
	}
	return err
}

func fillDue(q *queue.Message, token, id, try string) error {
	q.Kind = queue.Due
	w, err := wakeOf(q, token, id)
	if err == nil && strconv.Itoa(w.Try) != try {
		err = fmt.Errorf("the body is of try %d, the subject of %s", w.Try, quoted(try))
	}
	q.Name, q.Try = w.Type, w.Try
	return err
}

// wakeOf reads the body of a message that wakes a run for an effect, and
// checks that it is of the run and effect its subject names.
func wakeOf(q *queue.Message, token, id string) (wake, error) {
	var w wake
	if err := json.Unmarshal(q.Body, &w); err != nil {
		return w, fmt.Errorf("the body is no wake-up for an effect: %w", err)
	}
	if queue.Token(w.Run) != token || idToken(w.Effect) != id {
		return w, fmt.Errorf("the body is of run %s and effect %s, not those of subject %s", quoted(w.Run), quoted(w.Effect), quoted(q.Subject))
	}
	if err := queue.CheckRun(w.Run); err != nil {
		return w, err
	}
	q.Run, q.ID, q.Asked = w.Run, w.Effect, w.Asked
	return w, nil
}

// runOf is the run a token names, or, where the token is "_" or a hash, the
// header.
func runOf(q *queue.Message, token string) (string, error) {
	if run, ok := queue.Untoken(token); ok {
		return run, queue.CheckRun(run)
	}
	run, ok := q.Headers[headerRun]
	if !ok {
		return "", fmt.Errorf("token %s names no run, and %s is missing", quoted(token), headerRun)
	}
	if err := checkID(headerRun, run, mostID); err != nil {
		return "", err
	}
	if token != nobody && queue.Token(run) != token {
		return "", fmt.Errorf("%s is not the run of token %s", headerRun, quoted(token))
	}
	return run, queue.CheckRun(run)
}

// idFrom is the first of some headers that is there.
func idFrom(h map[string]string, most int, names ...string) (id string, given bool, err error) {
	for _, name := range names {
		if v, ok := h[name]; ok {
			return v, true, checkID(name, v, most)
		}
	}
	return "", false, nil
}

func checkID(name, id string, most int) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", name)
	case len(id) > most:
		return fmt.Errorf("%s is %d bytes long; at most %d are allowed", name, len(id), most)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s is not UTF-8", name)
	}
	return nil
}

// first is the first error: one line is enough to mend a message, and the next
// fault shows when it comes again.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var errNoMessage = errors.New("the body holds no postponed message")
