package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	natsNeeded  = "2.12.0" // atomic batches, schedules
	natsTested  = "2.15.0"
	leastRecord = 1 << 20 // max_payload: a record has up to 900 KB, and headers
)

// nats examines the server, then the streams.
func (x *exam) nats(ctx context.Context) {
	nc := x.NATS
	version := nc.ConnectedServerVersion()
	var v first
	v.when(!atLeast(version, natsNeeded), Fail, "update nats-server: atomic batches and message schedules are needed", "%s, older than %s", version, natsNeeded)
	v.when(!atLeast(version, natsTested), Warn, "update nats-server: pawl is tested with "+natsTested+" and later", "%s", version)
	x.judge("nats version", v, "%s (server %s)", version, nc.ConnectedServerName())

	var payload first
	payload.when(nc.MaxPayload() < leastRecord, Fail, "set max_payload to 1MB", "%s: a record may not fit", size(nc.MaxPayload()))
	x.judge("nats max_payload", payload, "%s", size(nc.MaxPayload()))

	x.connection()
	x.roundTrips(ctx)
	x.rights(ctx)
	if x.jetStream(ctx) {
		x.streams(ctx)
	}
	x.monitor(ctx)
}

// roundTrips times round trips, all of them within the time of one request.
func (x *exam) roundTrips(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	var all []time.Duration
	for range trips {
		began := time.Now()
		if err := x.NATS.FlushWithContext(ctx); err != nil {
			break
		}
		all = append(all, time.Since(began))
	}
	if len(all) == 0 {
		x.note(Fail, "nats round trip", fmt.Sprintf("no answer within %v", x.Timeout), "is the server overloaded, or the network cut?")
	}
	x.trip("nats round trip", all)
}

// connection judges who can read what is said.
func (x *exam) connection() {
	nc := x.NATS
	_, err := nc.TLSConnectionState()
	secret := err == nil
	near := false
	if u, err := url.Parse(nc.ConnectedUrl()); err == nil {
		ip := net.ParseIP(u.Hostname())
		near = u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	}
	how := map[bool]string{true: "TLS", false: "not encrypted"}[secret] + map[bool]string{true: ", signed in", false: ", nobody has to sign in"}[nc.AuthRequired()]
	var f first
	f.when(!near && !secret, Warn, "let the server speak TLS; workers: nats.tls", "%s", how)
	f.when(!near && !nc.AuthRequired(), Warn, "give each role a user of its own", "%s", how)
	if near {
		how += " (on the loopback)"
	}
	x.judge("nats connection", f, "%s", how)
}

// jetStream reports whether JetStream answers.
func (x *exam) jetStream(ctx context.Context) bool {
	js, err := jetstream.New(x.NATS, jetstream.WithDefaultTimeout(x.Timeout))
	if err != nil {
		x.note(Fail, "jetstream", err.Error(), "")
		return false
	}
	x.ask()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		text, fix, denied := x.why(err)
		if denied {
			// The rest can be seen without that right.
			x.note(Unknown, "jetstream", text, fix)
			return true
		}
		x.note(Fail, "jetstream", text, fix)
		return false
	}
	var f first
	limit, used := float64(info.Limits.MaxStore), float64(max(info.Store, info.ReservedStore))
	f.when(limit > 0 && share(used, limit) >= 90, Fail, "raise the account's max_file, or remove what is not needed", "%.0f %% of the account's %s used or reserved", share(used, limit), size(info.Limits.MaxStore))
	f.when(limit > 0 && share(used, limit) >= 70, Warn, "raise the account's max_file", "%.0f %% of the account's %s used or reserved", share(used, limit), size(info.Limits.MaxStore))
	bound := "no limit of the account"
	if limit > 0 {
		bound = "of " + size(info.Limits.MaxStore)
	}
	x.judge("jetstream", f, "on; %s stored, %s reserved, %s", size(info.Store), size(info.ReservedStore), bound)
	return true
}

// ask notes that a request is made: what the server complained of before is not
// why it fails.
func (x *exam) ask() { x.heard = x.NATS.LastError() }

// why words an error that JetStream gave since ask, and says what to do about it. denied is set
// if the user lacks a permission, which the client itself takes for a server
// that does not answer.
func (x *exam) why(err error) (text, fix string, denied bool) {
	last := x.NATS.LastError()
	if last == x.heard { // the connection keeps its last error for ever
		last = nil
	}
	silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	switch {
	case (silent || errors.Is(err, nats.ErrPermissionViolation)) && errors.Is(last, nats.ErrPermissionViolation):
		return "no permission: " + violation(last), "grant it to this user, or examine as another", true
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return "the server has no JetStream", `put "jetstream { store_dir: … }" into its configuration`, false
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "JetStream is off for this account", "enable it for the account, or use the credentials of another", false
	case silent:
		return fmt.Sprintf("no answer within %v", x.Timeout), "is there a quorum of servers? has this user the permission for $JS.API.>?", false
	}
	return oneLine(err.Error()), "", false
}

// violation is the subject that the server complained about.
func violation(err error) string {
	text := err.Error()
	if i := strings.Index(text, "Permissions Violation for "); i >= 0 {
		text = text[i+len("Permissions Violation for "):]
	}
	return text
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
