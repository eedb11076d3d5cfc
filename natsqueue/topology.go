package natsqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/queue"
)

// The streams, without the prefix.
const (
	streamStart    = "START"
	streamSignal   = "SIGNAL"
	streamEvents   = "EVENTS"
	streamEffects  = "EFFECTS"
	streamTimers   = "TIMERS"
	streamHistory  = "HISTORY"
	streamLedger   = "LEDGER"
	streamDLQ      = "DLQ"
	streamBlobs    = "BLOBS"
	streamMachines = "MACHINES"
	streamFinished = "FINISHED"
	streamFlow     = "FLOW"
	streamAudit    = "AUDIT"
	streamProgress = "PROGRESS"
)

var streamNames = []string{
	streamStart, streamSignal, streamEvents, streamEffects, streamTimers,
	streamHistory, streamLedger, streamDLQ, streamBlobs, streamMachines, streamFinished, streamFlow, streamAudit, streamProgress,
}

// The consumers that every fleet has; each effect type has one more.
const (
	ConsumerStart  = "start"
	ConsumerSignal = "signal"
	ConsumerResult = "result"
	ConsumerEvent  = "event"
	ConsumerDue    = "due"

	consumerEffect = "effect-"
)

// EffectConsumer is the name of the consumer of an effect type.
func EffectConsumer(effect string) string { return consumerEffect + EffectToken(effect) }

// streamOf is the stream of a consumer.
func streamOf(consumer string) (string, error) {
	switch consumer {
	case ConsumerStart:
		return streamStart, nil
	case ConsumerSignal, ConsumerResult:
		return streamSignal, nil
	case ConsumerEvent:
		return streamEvents, nil
	case ConsumerDue:
		return streamTimers, nil
	}
	if _, ok := queue.ParseLine(consumer); ok {
		return streamStart, nil
	}
	if strings.HasPrefix(consumer, consumerEffect) {
		return streamEffects, nil
	}
	return "", fmt.Errorf("no consumer is called %s", quoted(consumer))
}

// metaIncarnation is the key of a stream's incarnation id in its metadata.
const metaIncarnation = "pawl-incarnation"

const (
	// shortWindow is the least the broker allows. Uniqueness is ours: the
	// window spans all subjects of a stream, and swallows other people's
	// messages with a good acknowledgement.
	shortWindow = 100 * time.Millisecond

	// endsWindow is for how long the end of a run that is published again, by
	// whom its message comes to after a crash, is known to be there. The broker
	// keeps some 200 bytes in memory for each end in it.
	endsWindow = 2 * time.Minute

	outsideMsgSize = 900 << 10 // of starts and signals: with a letter's headers it still fits
	maxWaiting     = 4096      // open pulls per consumer; the default 512 is a small fleet
)

// Topology is everything a fleet needs to exist in JetStream.
type Topology struct {
	Prefix   string   // default "pawl"
	Replicas int      // of every stream; default 1
	Effects  []string // the effect types that get a consumer

	AckWait       time.Duration // of starts, signals, events and due timers; default 10 s
	EffectAckWait time.Duration // of effects; default 30 s

	FinishedFor time.Duration // how long the end of a run is told; default 24 h

	Limits Limits
	// Shrink allows a change that makes a limit, or the number of replicas,
	// smaller. Without it such a change is only reported.
	Shrink bool
}

// Limits bound streams; 0 is the default, −1 no limit. A limit in bytes is
// reserved on the server's disk.
type Limits struct {
	StartMsgs    int64 // default 1,000,000
	StartBytes   int64 // default 1 GB
	SignalMsgs   int64 // default 1,000,000
	SignalBytes  int64 // default 256 MB
	HistoryBytes int64 // default none
	LedgerBytes  int64 // default none
	DLQBytes     int64 // default none
	BlobBytes    int64 // default none
}

func (t Topology) withDefaults() Topology {
	if t.Prefix == "" {
		t.Prefix = DefaultPrefix
	}
	if t.Replicas == 0 {
		t.Replicas = 1
	}
	if t.AckWait == 0 {
		t.AckWait = 10 * time.Second
	}
	if t.EffectAckWait == 0 {
		t.EffectAckWait = 30 * time.Second
	}
	if t.FinishedFor == 0 {
		t.FinishedFor = 24 * time.Hour
	}
	or := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	or(&t.Limits.StartMsgs, 1_000_000)
	or(&t.Limits.StartBytes, 1<<30)
	or(&t.Limits.SignalMsgs, 1_000_000)
	or(&t.Limits.SignalBytes, 256<<20)
	or(&t.Limits.HistoryBytes, -1)
	or(&t.Limits.LedgerBytes, -1)
	or(&t.Limits.DLQBytes, -1)
	or(&t.Limits.BlobBytes, -1)
	return t
}

func (t Topology) validate() error {
	errs := []error{checkPrefix(t.Prefix)}
	if t.Replicas < 1 || t.Replicas > 5 {
		errs = append(errs, fmt.Errorf("%d replicas: 1 to 5 are possible", t.Replicas))
	}
	if t.FinishedFor < time.Second {
		errs = append(errs, fmt.Errorf("ends of runs kept for %v: at least a second", t.FinishedFor))
	}
	for _, e := range t.Effects {
		errs = append(errs, checkEffect(e))
	}
	return errors.Join(errs...)
}

// streams lists the streams as they shall be.
func (t Topology) streams() []jetstream.StreamConfig {
	s := subjects{t.Prefix}
	stream := func(name string, tokens ...string) jetstream.StreamConfig {
		c := jetstream.StreamConfig{
			Name:              s.stream(name),
			Replicas:          t.Replicas,
			Storage:           jetstream.FileStorage,
			Retention:         jetstream.LimitsPolicy,
			Discard:           jetstream.DiscardNew,
			MaxMsgs:           -1,
			MaxBytes:          -1,
			MaxMsgsPerSubject: -1,
			MaxConsumers:      -1,
			MaxMsgSize:        -1,
			AllowDirect:       true,
			Duplicates:        shortWindow,
		}
		for _, t := range tokens {
			c.Subjects = append(c.Subjects, s.prefix+"."+t)
		}
		return c
	}
	queue := func(name string, tokens ...string) jetstream.StreamConfig {
		c := stream(name, tokens...)
		c.Retention = jetstream.WorkQueuePolicy
		return c
	}

	start := queue(streamStart, "start.*", "line.*.*.*")
	start.AllowAtomicPublish = true
	start.MaxMsgs, start.MaxBytes, start.MaxMsgSize = t.Limits.StartMsgs, t.Limits.StartBytes, outsideMsgSize
	signal := queue(streamSignal, "signal.*.*", "result.*")
	signal.MaxMsgs, signal.MaxBytes, signal.MaxMsgSize = t.Limits.SignalMsgs, t.Limits.SignalBytes, outsideMsgSize

	// A stream with schedules refuses to discard new messages, and would drop
	// pending timers to make room for others: so it has no limit at all.
	timers := queue(streamTimers, "timer.>", "due.>")
	timers.Discard = jetstream.DiscardOld
	timers.AllowMsgSchedules, timers.AllowRollup, timers.AllowAtomicPublish = true, true, true
	timers.AllowMsgTTL = true // what takes a schedule away goes itself
	effects := queue(streamEffects, "effect.*.*.*.*")
	effects.AllowAtomicPublish = true

	history := stream(streamHistory, "history.*.*")
	history.MaxBytes = t.Limits.HistoryBytes
	history.AllowAtomicPublish, history.AllowMsgTTL = true, true // a tombstone expires
	ledger := stream(streamLedger, "ledger.*")
	ledger.MaxBytes, ledger.MaxMsgsPerSubject, ledger.AllowMsgTTL = t.Limits.LedgerBytes, 1, true
	dlq := stream(streamDLQ, "dlq.*.*", "letter.*")
	dlq.MaxBytes, dlq.AllowMsgTTL, dlq.AllowAtomicPublish = t.Limits.DLQBytes, true, true
	blobs := stream(streamBlobs, "blob.*.*.*.*")
	blobs.MaxBytes, blobs.AllowMsgTTL = t.Limits.BlobBytes, true // those of keys expire with them

	// Who listens may miss what is too old, never hold anybody up.
	finished := stream(streamFinished, "finished.*")
	finished.Discard, finished.MaxAge, finished.Duplicates = jetstream.DiscardOld, t.FinishedFor, min(endsWindow, t.FinishedFor)
	finished.AllowAtomicPublish = true

	// What is held up: the last word on each subject; a closed key's expires.
	flow := stream(streamFlow, "flow.*.*", "flow.*.*.*")
	flow.MaxMsgsPerSubject, flow.AllowMsgTTL = 1, true

	// Who changed many things, and why: the oldest goes when it is full.
	audit := stream(streamAudit, "audit.*")
	audit.Discard, audit.MaxBytes, audit.MaxAge = jetstream.DiscardOld, auditBytes, auditFor

	// What is told of attempts under way is for those who look on: the oldest
	// goes when it is full, and all of it with the servers.
	progress := stream(streamProgress, "progress.*")
	progress.Storage, progress.Discard, progress.MaxAge = jetstream.MemoryStorage, jetstream.DiscardOld, progressFor
	progress.MaxBytes, progress.MaxMsgsPerSubject, progress.MaxMsgSize = progressBytes, progressOfRun, outsideMsgSize

	return []jetstream.StreamConfig{
		start, signal,
		queue(streamEvents, "event.*.*"),
		effects, timers, history, ledger, dlq, blobs,
		stream(streamMachines, "machine.*.*"), finished, flow, audit, progress,
	}
}

// consumer is a consumer as it shall be, with its stream.
type consumer struct {
	stream string
	config jetstream.ConsumerConfig
}

// consumers lists the consumers as they shall be. All workers share them.
func (t Topology) consumers() []consumer {
	s := subjects{t.Prefix}
	shared := func(stream, name, filter string, wait time.Duration) consumer {
		return consumer{s.stream(stream), jetstream.ConsumerConfig{
			Durable:       name,
			FilterSubject: s.prefix + "." + filter,
			DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       wait,
			// Attempts are counted in records, and a message that was tried too
			// often must not be left in the stream, delivered to nobody.
			MaxDeliver:    -1,
			MaxAckPending: -1,
			MaxWaiting:    maxWaiting,
		}}
	}
	all := []consumer{
		shared(streamStart, ConsumerStart, "start.*", t.AckWait),
		shared(streamSignal, ConsumerSignal, "signal.*.*", t.AckWait),
		shared(streamSignal, ConsumerResult, "result.*", t.AckWait),
		shared(streamEvents, ConsumerEvent, "event.*.*", t.AckWait),
		// Never over the schedules themselves: an ack would cancel them.
		shared(streamTimers, ConsumerDue, "due.>", t.AckWait),
	}
	for _, l := range queue.Lines() {
		all = append(all, shared(streamStart, l.Consumer(), strings.TrimPrefix(s.line(l, "*"), s.prefix+"."), t.AckWait))
	}
	effects := slices.Clone(t.Effects)
	slices.Sort(effects)
	for _, e := range slices.Compact(effects) {
		all = append(all, shared(streamEffects, EffectConsumer(e), "effect."+EffectToken(e)+".*.*.*", t.EffectAckWait))
	}
	return all
}
