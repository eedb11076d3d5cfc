package natsqueue

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// provisionWait is how long one stream or consumer may take to be made; in a
// cluster that includes the election of its leader.
const provisionWait = 20 * time.Second

// Change is a difference between what exists and what shall.
type Change struct {
	Object string // "stream PAWL_START", "consumer PAWL_START/start"
	Field  string // "" if the object is to be created
	Have   string
	Want   string
	Held   string // why it is not made, "" if it is
	// Vital is set if the fleet does not work with what is there: messages
	// would be lost, dropped, withheld, or acknowledged too early. The others
	// are limits, and times.
	Vital bool
}

func (c Change) String() string {
	s := "create " + c.Object
	if c.Field != "" {
		s = fmt.Sprintf("change %s of %s from %s to %s", c.Field, c.Object, c.Have, c.Want)
	}
	if c.Held != "" {
		s += " (not made: " + c.Held + ")"
	}
	return s
}

// Plan lists what Provision would do.
func Plan(ctx context.Context, nc *nats.Conn, t Topology) ([]Change, error) {
	return provision(ctx, nc, t, true)
}

// Provision makes what is missing and changes what differs, and returns what
// it did, and what it left (Change.Held). It may be called any number of
// times, by any number of processes.
func Provision(ctx context.Context, nc *nats.Conn, t Topology) ([]Change, error) {
	return provision(ctx, nc, t, false)
}

func provision(ctx context.Context, nc *nats.Conn, t Topology, dry bool) ([]Change, error) {
	t = t.withDefaults()
	if err := t.validate(); err != nil {
		return nil, err
	}
	if err := connected(ctx, nc); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(provisionWait))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	p := provisioner{js: js, shrink: t.Shrink, dry: dry}
	for _, want := range t.streams() {
		if err := p.stream(ctx, want); err != nil {
			return p.changes, err
		}
	}
	for _, want := range t.consumers() {
		if err := p.consumer(ctx, want); err != nil {
			return p.changes, err
		}
	}
	return p.changes, nil
}

type provisioner struct {
	js      jetstream.JetStream
	shrink  bool
	dry     bool
	changes []Change
}

func (p *provisioner) stream(ctx context.Context, want jetstream.StreamConfig) error {
	object := "stream " + want.Name
	have, err := p.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		p.changes = append(p.changes, Change{Object: object, Vital: true})
		if p.dry {
			return nil
		}
		want.Metadata = map[string]string{metaIncarnation: newID()}
		_, err = p.js.CreateStream(ctx, want)
		// Another process was faster; its stream may even differ, which the
		// next call will tell.
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil
		}
		return fmt.Errorf("create %s: %w", object, err)
	}
	if err != nil {
		return fmt.Errorf("look up %s: %w", object, err)
	}
	config := have.CachedInfo().Config
	changes := p.judge(object, streamFields(&config), streamFields(&want))
	p.changes = append(p.changes, changes...)
	if p.dry || !anyMade(changes) {
		return nil
	}
	if _, err := p.js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("update %s: %w", object, err)
	}
	return nil
}

func (p *provisioner) consumer(ctx context.Context, want consumer) error {
	object := fmt.Sprintf("consumer %s/%s", want.stream, want.config.Durable)
	have, err := p.js.Consumer(ctx, want.stream, want.config.Durable)
	missing := errors.Is(err, jetstream.ErrConsumerNotFound) || p.dry && errors.Is(err, jetstream.ErrStreamNotFound)
	if missing {
		p.changes = append(p.changes, Change{Object: object, Vital: true})
		if p.dry {
			return nil
		}
		_, err = p.js.CreateConsumer(ctx, want.stream, want.config)
		if err == nil || errors.Is(err, jetstream.ErrConsumerExists) {
			return nil
		}
		return fmt.Errorf("create %s: %w", object, err)
	}
	if err != nil {
		return fmt.Errorf("look up %s: %w", object, err)
	}
	config := have.CachedInfo().Config
	changes := p.judge(object, consumerFields(&config), consumerFields(&want.config))
	p.changes = append(p.changes, changes...)
	if p.dry || !anyMade(changes) {
		return nil
	}
	if _, err := p.js.UpdateConsumer(ctx, want.stream, config); err != nil {
		return fmt.Errorf("update %s: %w", object, err)
	}
	return nil
}

// judge compares the fields, and sets in the existing object those that may
// be changed.
func (p *provisioner) judge(object string, have, want []field) []Change {
	var changes []Change
	for i, h := range have {
		w := want[i]
		if h.text() == w.text() {
			continue
		}
		c := Change{Object: object, Field: h.name, Have: h.text(), Want: w.text(), Vital: h.vital}
		switch {
		case h.fixed:
			c.Held = "it cannot be changed; remove the object, or keep it"
		case h.size != nil && smaller(*w.size, *h.size) && !p.shrink:
			c.Held = "it would shrink; allow it if you mean it"
		default:
			h.set(w)
		}
		changes = append(changes, c)
	}
	return changes
}

func anyMade(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Held == "" })
}

// smaller compares limits, of which those below 1 are none.
func smaller(a, b int64) bool {
	if a <= 0 {
		return false
	}
	return b <= 0 || a < b
}

// field is one setting of an object: how it reads, and how it is set.
type field struct {
	name  string
	fixed bool   // the broker does not change it, or not back
	vital bool   // as Change.Vital
	size  *int64 // set for limits
	text  func() string
	set   func(field)
	value func() any
}

// setting is a field that is compared by its text.
func setting[T any](name string, fixed bool, p *T) field {
	return field{
		name:  name,
		fixed: fixed,
		text:  func() string { return fmt.Sprint(*p) },
		value: func() any { return *p },
		set:   func(f field) { *p = f.value().(T) },
	}
}

// limit is a field that must not shrink unasked.
func limit[T ~int64 | ~int32 | ~int](name string, p *T) field {
	f := setting(name, false, p)
	n := int64(*p)
	f.size = &n
	if n <= 0 {
		f.text = func() string { return "none" }
	}
	return f
}

// vital marks fields without which the fleet does not work.
func vital(all ...field) []field {
	for i := range all {
		all[i].vital = true
	}
	return all
}

// streamFields lists the settings of a stream that are provisioned; others are
// the operator's.
func streamFields(c *jetstream.StreamConfig) []field {
	slices.Sort(c.Subjects)
	return append(vital(
		setting("subjects", false, &c.Subjects),
		setting("retention", true, &c.Retention),
		setting("storage", true, &c.Storage),
		setting("discard", false, &c.Discard),
		setting("maximum age", false, &c.MaxAge),
		setting("no acknowledgement", false, &c.NoAck),
		setting("sealed", true, &c.Sealed),
		setting("persist mode", true, &c.PersistMode),
		setting("direct get", false, &c.AllowDirect),
		setting("atomic publish", false, &c.AllowAtomicPublish),
		setting("message TTL", false, &c.AllowMsgTTL),
		setting("message schedules", false, &c.AllowMsgSchedules),
		limit("maximum messages per subject", &c.MaxMsgsPerSubject),
	),
		setting("duplicate window", false, &c.Duplicates),
		limit("replicas", &c.Replicas),
		limit("maximum messages", &c.MaxMsgs),
		limit("maximum bytes", &c.MaxBytes),
		limit("maximum message size", &c.MaxMsgSize),
		setting("deny purge", true, &c.DenyPurge),
		setting("deny delete", true, &c.DenyDelete),
	)
}

func consumerFields(c *jetstream.ConsumerConfig) []field {
	return append(vital(
		setting("filter", false, &c.FilterSubject),
		setting("filters", false, &c.FilterSubjects),
		setting("ack policy", true, &c.AckPolicy),
		setting("deliver policy", true, &c.DeliverPolicy),
		setting("maximum deliveries", false, &c.MaxDeliver),
		setting("headers only", false, &c.HeadersOnly),
		setting("inactive threshold", false, &c.InactiveThreshold),
	),
		setting("ack wait", false, &c.AckWait),
		setting("maximum unacknowledged", false, &c.MaxAckPending),
		setting("maximum waiting", true, &c.MaxWaiting),
		setting("back-off", false, &c.BackOff),
	)
}

// newID is a random id that is legal in run ids and easy to read out.
func newID() string {
	var b [10]byte
	rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
