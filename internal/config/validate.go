package config

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/queue"
)

var (
	prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	effectPattern = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
)

// validate checks every rule and changes nothing.
func (c *Config) validate(f *faults) {
	f.check(prefixPattern.MatchString(c.Prefix), "prefix",
		"must be a lower-case word of at most 32 letters, digits, - and _, got %q", c.Prefix)
	f.check(c.DataDir != "", "data_dir", "must name a folder")
	c.validateMode(f)
	c.NATS.validate(f)
	c.Redis.validate(f)
	if c.HTTP.Addr != "" {
		address(f, "http.addr", c.HTTP.Addr)
	}
	c.HTTP.Starts.validate(f)
	lasting(f, "metrics.every", c.Metrics.Every, time.Second, 10*time.Minute)
	c.Worker.validate(f)
	c.Retry.validate(f)
	c.Limits.validate(f)
	c.Retention.validate(f)
	c.Effects.validate(f, c.Prefix)
	oneOf(f, "log.format", c.Log.Format, LogText, LogJSON)
}

func (c *Config) validateMode(f *faults) {
	oneOf(f, "mode", c.Mode, ModeAuto, ModeEmbedded, ModeReal)
	nats, redis := c.NATS.URL != "", c.Redis.Addr != ""
	const rule = "a process joins both servers of a fleet, or runs both itself"
	f.check(f.tool || redis || !nats, "nats.url",
		"is set, but redis.addr (PAWL_REDIS_ADDR) is not: %s", rule)
	f.check(f.tool || nats || !redis, "redis.addr",
		"is set, but nats.url (PAWL_NATS_URL) is not: %s", rule)
	f.check(c.Mode != ModeReal || nats || redis, "mode",
		"is real, but nats.url (PAWL_NATS_URL) and redis.addr (PAWL_REDIS_ADDR) are not set")
	f.check(c.Mode != ModeEmbedded || !nats || !redis, "mode",
		"is embedded, but nats.url and redis.addr are set: take them away, or set mode to auto")
}

func (n *NATS) validate(f *faults) {
	for _, text := range fields(n.URL) {
		u, err := url.Parse(withScheme(text))
		ok := err == nil && u.Hostname() != "" && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)
		f.check(ok, "nats.url", "must be nats://host:port, or several divided by commas, got %q", redacted(text))
		// What the environment holds may carry a secret; a file may not.
		f.check(!ok || u.User == nil || f.origins["nats.url"].line == 0, "nats.url",
			"carries a user or a token: use nats.creds_file or nats.nkey_file, or set PAWL_NATS_URL")
	}
	loopback(f, "nats.listen", n.Listen)
	f.check(n.CredsFile == "" || n.NKeyFile == "", "nats.creds_file", "only one of creds_file and nkey_file can be used")
	f.check(n.Password == "" || n.Username != "", "nats.username", "must be given with the password")
	n.TLS.validate(f, "nats.tls")
	f.check(n.Replicas == 1 || n.Replicas == 3 || n.Replicas == 5, "nats.replicas", "must be 1, 3 or 5, got %d", n.Replicas)
	oneOf(f, "nats.group_commit", n.GroupCommit, Auto, On, Off)
}

func (r *Redis) validate(f *faults) {
	for _, addr := range fields(r.Addr) {
		f.check(!strings.Contains(addr, "://"), "redis.addr",
			"is host:port, not a URL (redis.tls, redis.username and redis.password_file say the rest), got %q", redacted(addr))
		if !strings.Contains(addr, "://") {
			address(f, "redis.addr", addr)
		}
	}
	loopback(f, "redis.listen", r.Listen)
	r.TLS.validate(f, "redis.tls")
}

func (t *TLS) validate(f *faults, path string) {
	f.check((t.CertFile == "") == (t.KeyFile == ""), path+".cert_file", "a certificate needs its key: give both cert_file and key_file, or neither")
}

// shortestToken is how short a token may be: one that is guessed starts runs.
const shortestToken = 16

func (h *HTTPStarts) validate(f *faults) {
	between(f, "http.starts.in_flight", h.InFlight, 1, 1000)
	lasting(f, "http.starts.timeout", h.Timeout, 100*time.Millisecond, time.Minute)
	if h.Addr == "" {
		return
	}
	address(f, "http.starts.addr", h.Addr)
	tokens := h.Tokens()
	f.check(len(tokens) > 0, "http.starts.addr", "is set, but there is no token: name a file in http.starts.token_file, or set PAWL_HTTP_STARTS_TOKEN")
	for _, t := range tokens {
		f.check(len(t) >= shortestToken, "http.starts.token_file", "holds a token of %d letters: at least %d are needed", len(t), shortestToken)
	}
}

func (w *Worker) validate(f *faults) {
	between(f, "worker.lanes", w.Lanes, 1, 64)
	between(f, "worker.batch", w.Batch, 1, 1000)
	between(f, "worker.inline_max", w.InlineMax, 1, 100_000)
	between(f, "worker.inline_per_run", w.InlinePerRun, 1, 1000)
	between(f, "worker.queued_max", w.QueuedMax, 1, 100_000)
	between(f, "worker.in_flight", w.InFlight, 1, 1_000_000)
	lasting(f, "worker.ack_wait", w.AckWait, 300*time.Millisecond, 10*time.Minute)
	lasting(f, "worker.effect_ack_wait", w.EffectAckWait, 300*time.Millisecond, 10*time.Minute)
	f.check(w.EffectAckWait >= w.AckWait, "worker.effect_ack_wait", "must not be less than worker.ack_wait (%s), got %s",
		plain(w.AckWait), plain(w.EffectAckWait))
	lasting(f, "worker.stop_timeout", w.StopTimeout, time.Second, time.Hour)
	lasting(f, "worker.sweep_every", w.SweepEvery, time.Second, 24*time.Hour)
}

func (r *Retry) validate(f *faults) {
	between(f, "retry.attempts", r.Attempts, 1, 100)
	lasting(f, "retry.initial", r.Initial, time.Millisecond, time.Hour)
	between(f, "retry.factor", r.Factor, 1, 10)
	// Without jitter all come back together; at 1 a wait may be none at all.
	between(f, "retry.jitter", r.Jitter, 0.1, 0.9)
	lasting(f, "retry.max", r.Max, time.Millisecond, 24*time.Hour)
	f.check(r.Max >= r.Initial, "retry.max", "must not be less than retry.initial (%s), got %s", plain(r.Initial), plain(r.Max))
}

func (l *Limits) validate(f *faults) {
	stream(f, "limits.start_size", l.StartSize)
	stream(f, "limits.signal_size", l.SignalSize)
	stream(f, "limits.history_size", l.HistorySize)
	stream(f, "limits.dlq_size", l.DLQSize)
	stream(f, "limits.blobs_size", l.BlobsSize)
}

// stream checks the size of a stream: smaller ones would refuse a large
// message though they are empty.
func stream(f *faults, path string, got Size) {
	f.check(got == 0 || got >= 16<<20, path, "must be 0 (no limit) or at least 16MiB, got %s", got)
}

func (r *Retention) validate(f *faults) {
	const year = 365 * 24 * time.Hour
	lasting(f, "retention.ended", r.Ended, time.Minute, year)
	lasting(f, "retention.history", r.History, time.Minute, 100*year)
	lasting(f, "retention.ledger", r.Ledger, time.Hour, 100*year)
	lasting(f, "retention.finished", r.Finished, time.Minute, year)
}

func (m *EffectModel) validate(f *faults) {
	lasting(f, "effects.model.timeout", m.Timeout, time.Second, time.Hour)
	if m.URL == "" {
		f.check(m.Name == "", "effects.model.url", "is missing: a model is named, and not where it is")
		return
	}
	u, err := url.Parse(m.URL)
	f.check(err == nil && u.Host != "" && u.User == nil && (u.Scheme == "http" || u.Scheme == "https"), "effects.model.url",
		"must be an http or https URL, such as https://host/v1, without a user, got %q", redacted(m.URL))
	f.check(m.Name != "", "effects.model.name", "is missing: which model is asked?")
}

func (t *Tool) validate(f *faults, path string) {
	if *t == (Tool{}) {
		return
	}
	f.check(t.Description != "", path+".description", "is missing: what does a model know of the tool?")
	var schema map[string]any
	err := json.Unmarshal([]byte(t.Parameters), &schema)
	f.check(err == nil && schema != nil, path+".parameters", "must be a JSON schema, a JSON object in quotes, got %q", t.Parameters)
}

func (e *Effects) validate(f *faults, prefix string) {
	for _, host := range e.HTTP.AllowHosts {
		f.check(host != "" && !strings.ContainsAny(host, "/*@ ") && (!strings.Contains(host, ":") || net.ParseIP(host) != nil),
			"effects.http.allow_hosts", "must be host names or addresses without scheme, port and wildcard, got %q", host)
	}
	lasting(f, "effects.http.timeout", e.HTTP.Timeout, time.Millisecond, time.Hour)
	e.Model.validate(f)
	for _, name := range sorted(e.Queued) {
		path := "effects.queued[" + name + "]"
		effectName(f, path, name)
		between(f, path, e.Queued[name], 1, 100_000)
	}
	for _, name := range sorted(e.Limits) {
		path, l := "effects.limits["+name+"]", e.Limits[name]
		effectName(f, path, name)
		f.check(!flow.Limit(l).IsZero(), path, "limits nothing: give concurrency, per_key, rate or rate_per_key")
		between(f, path+".concurrency", l.Concurrency, 0, 100_000)
		between(f, path+".per_key", l.PerKey, 0, 100_000)
	}
	for _, name := range sorted(e.Policies) {
		path := "effects.policies[" + name + "]"
		effectName(f, path, name)
		e.Policies[name].validate(f, path)
	}
	for _, name := range sorted(e.Bound) {
		path, b := "effects.bound["+name+"]", e.Bound[name]
		effectName(f, path, name)
		if b.Subject != "" {
			f.check(b.URL == "", path, "has a url and a subject: one of them is needed")
			f.check(queue.IsSubject(b.Subject), path+".subject", "must be %s, got %q", queue.SubjectGrammar, b.Subject)
			f.check(!strings.HasPrefix(b.Subject, prefix+"."), path+".subject", "is the fleet's own, since it begins with its prefix: %q", b.Subject)
		} else if f.check(b.URL != "", path, "needs a url or a subject"); b.URL != "" {
			webURL(f, path+".url", b.URL)
		}
		b.Tool.validate(f, path+".tool")
		if b.Verify != "" {
			f.check(b.URL != "", path+".verify", "is for what is served at a url")
			webURL(f, path+".verify", b.Verify)
		}
		if b.Timeout != 0 {
			lasting(f, path+".timeout", b.Timeout, time.Millisecond, time.Hour)
		}
		if b.Within != 0 {
			lasting(f, path+".within", b.Within, time.Second, 365*24*time.Hour)
		}
		if b.Heartbeat != 0 {
			lasting(f, path+".heartbeat", b.Heartbeat, time.Second, 365*24*time.Hour)
		}
	}
}

func webURL(f *faults, path, got string) {
	u, err := url.Parse(got)
	f.check(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"), path, "must be an http or https URL, got %q", redacted(got))
	f.check(err != nil || u.User == nil, path, "must not carry a user or a password")
}

// validate checks what is given of a policy.
func (p Policy) validate(f *faults, path string) {
	if p.Attempts != 0 {
		between(f, path+".attempts", p.Attempts, 1, 100)
	}
	if p.Timeout != 0 {
		lasting(f, path+".timeout", p.Timeout, time.Millisecond, 24*time.Hour)
	}
	if p.Initial != 0 {
		lasting(f, path+".initial", p.Initial, time.Millisecond, time.Hour)
	}
	if p.Factor != 0 {
		between(f, path+".factor", p.Factor, 1, 10)
	}
	if p.Max != 0 {
		lasting(f, path+".max", p.Max, time.Millisecond, 24*time.Hour)
		f.check(p.Max >= p.Initial, path+".max", "must not be less than initial (%s), got %s", plain(p.Initial), plain(p.Max))
	}
	if p.InDoubt != "" {
		oneOf(f, path+".in_doubt", p.InDoubt, Repeat, Verify, Halt)
	}
}

func effectName(f *faults, path, name string) {
	f.check(effectPattern.MatchString(name) && !strings.HasSuffix(name, ".") && !strings.Contains(name, ".."), path,
		"an effect's name is a lower-case word of at most 64 letters, digits, dots, - and _")
}

func oneOf[T ~string](f *faults, path string, got T, allowed ...T) {
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	f.check(slices.Contains(allowed, got), path, "must be one of %s, got %q", strings.Join(words, ", "), string(got))
}

func between[T cmp.Ordered](f *faults, path string, got, low, high T) {
	f.check(got >= low && got <= high, path, "must be between %v and %v, got %v", low, high, got)
}

func lasting(f *faults, path string, got, low, high time.Duration) {
	f.check(got >= low && got <= high, path, "must be between %s and %s, got %s", plain(low), plain(high), plain(got))
}

// plain writes a duration without the zero units that String adds.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func address(f *faults, path, addr string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.Atoi(port)
	ok = err == nil && portErr == nil && n >= 0 && n <= 65535
	f.check(ok, path, "must be host:port, got %q", addr)
	return host, ok
}

// loopback guards the embedded servers: they ask nobody who they are.
func loopback(f *faults, path, addr string) {
	host, ok := address(f, path, addr)
	if !ok {
		return
	}
	ip := net.ParseIP(host)
	f.check(host == "localhost" || ip != nil && ip.IsLoopback(), path,
		"must be a loopback address, since embedded servers let everyone in, got %q", addr)
}

func fields(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func withScheme(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	return "nats://" + text
}

// redacted drops what stands before an @, which may be a secret.
func redacted(text string) string {
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return text
	}
	scheme, _, ok := strings.Cut(text[:i], "://")
	if ok {
		return scheme + "://(hidden)" + text[i:]
	}
	return "(hidden)" + text[i:]
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
