// Package config turns config.yaml and the environment into one validated
// value.
//
// There is one tree of structs; its yaml tags are the keys, and Default holds
// the defaults. Every leaf has an override in the environment whose name is
// generated from its path: worker.ack_wait is PAWL_WORKER_ACK_WAIT. Order:
// defaults, then the file, then the environment.
//
// Everything that is wrong is reported at once, one line for each fault, with
// the line and the path of its key. Secrets have no key in the file: they come
// from the environment, or from files that are named here.
package config

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pawlrun/pawl/flow"
)

// Config is everything a process of the fleet is told from outside.
type Config struct {
	Mode      Mode      `yaml:"mode"`     // after Load it is ModeEmbedded or ModeReal
	Prefix    string    `yaml:"prefix"`   // first token of all subjects and keys
	DataDir   string    `yaml:"data_dir"` // folder of the embedded servers
	NATS      NATS      `yaml:"nats"`
	Redis     Redis     `yaml:"redis"`
	HTTP      HTTP      `yaml:"http"`
	API       API       `yaml:"api"`
	Metrics   Metrics   `yaml:"metrics"`
	Worker    Worker    `yaml:"worker"`
	Retry     Retry     `yaml:"retry"`
	Limits    Limits    `yaml:"limits"`
	Retention Retention `yaml:"retention"`
	Effects   Effects   `yaml:"effects"`
	Log       Log       `yaml:"log"`
}

// Mode says where the servers of the fleet are.
type Mode string

// The modes. In a file "auto" is the usual one: real if nats.url and
// redis.addr are given, else embedded. The others are assertions.
const (
	ModeAuto     Mode = "auto"
	ModeEmbedded Mode = "embedded"
	ModeReal     Mode = "real"
)

// NATS says how to reach JetStream, or where the embedded server listens.
type NATS struct {
	URL          string `yaml:"url"`        // one or more, divided by commas
	Listen       string `yaml:"listen"`     // embedded: loopback address
	CredsFile    string `yaml:"creds_file"` // user JWT and seed
	NKeyFile     string `yaml:"nkey_file"`  // NKey seed
	Username     string `yaml:"username"`
	Password     Secret `yaml:"password" secret:"password_file"`
	PasswordFile string `yaml:"password_file"`
	TLS          TLS    `yaml:"tls"`
	Replicas     int    `yaml:"replicas"` // of every stream that provision creates
	GroupCommit  Switch `yaml:"group_commit"`
}

// Redis says how to reach Redis, or where its embedded stand-in listens.
type Redis struct {
	Addr         string `yaml:"addr"`   // host:port, asked whether it is of a cluster; more than one, divided by commas, is one
	Listen       string `yaml:"listen"` // embedded: loopback address
	Username     string `yaml:"username"`
	Password     Secret `yaml:"password" secret:"password_file"`
	PasswordFile string `yaml:"password_file"`
	TLS          TLS    `yaml:"tls"`
}

// TLS is used if Enabled is set or any of the files is given.
type TLS struct {
	Enabled  bool   `yaml:"enabled"`
	CAFile   string `yaml:"ca_file"`   // who signs the servers; the system's authorities if empty
	CertFile string `yaml:"cert_file"` // client certificate
	KeyFile  string `yaml:"key_file"`  // its key
}

// On reports whether the connection is to use TLS.
func (t TLS) On() bool {
	return t.Enabled || t.CAFile != "" || t.CertFile != "" || t.KeyFile != ""
}

// Switch is a choice that may be left to the process.
type Switch string

// The positions of a Switch.
const (
	Auto Switch = "auto"
	On   Switch = "on"
	Off  Switch = "off"
)

// HTTP serves /livez, /readyz and /metrics.
type HTTP struct {
	Addr   string     `yaml:"addr"`  // empty: nowhere
	Pprof  bool       `yaml:"pprof"` // also /debug/pprof
	Starts HTTPStarts `yaml:"starts"`
}

// HTTPStarts takes starts and signals over HTTP, on an address of its own.
type HTTPStarts struct {
	Addr      string        `yaml:"addr"` // empty: nowhere
	Token     Secret        `yaml:"token" secret:"token_file"`
	TokenFile string        `yaml:"token_file"` // one token a line
	InFlight  int           `yaml:"in_flight"`  // requests at once
	Timeout   time.Duration `yaml:"timeout"`    // of storing one
}

// Tokens are the tokens that are taken: several, while one replaces another.
func (h *HTTPStarts) Tokens() []string {
	return strings.FieldsFunc(h.Token.Reveal(), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Metrics says how the gauges of the whole fleet are made.
type Metrics struct {
	Every time.Duration `yaml:"every"` // between two snapshots, at least
}

// API is the control API, over NATS.
type API struct {
	Enabled bool `yaml:"enabled"`
}

// Worker says how much is done at once, and how long things may take.
type Worker struct {
	Lanes         int           `yaml:"lanes"`
	Batch         int           `yaml:"batch"`          // messages a lane takes at a time
	InlineMax     int           `yaml:"inline_max"`     // inline handlers at once in this process
	InlinePerRun  int           `yaml:"inline_per_run"` // inline handlers at once for one run
	QueuedMax     int           `yaml:"queued_max"`     // queued effects of one type at once in this process
	InFlight      int           `yaml:"in_flight"`      // starts taken and not yet acked
	AckWait       time.Duration `yaml:"ack_wait"`
	EffectAckWait time.Duration `yaml:"effect_ack_wait"`
	StopTimeout   time.Duration `yaml:"stop_timeout"`
	SweepEvery    time.Duration `yaml:"sweep_every"` // length of a full pass of the sweeper
}

// Retry is how a failed effect is tried again, unless its policy says
// otherwise.
type Retry struct {
	Attempts int           `yaml:"attempts"` // in all, the first included
	Initial  time.Duration `yaml:"initial"`
	Factor   float64       `yaml:"factor"`
	Jitter   float64       `yaml:"jitter"` // a wait w becomes something in w·(1±jitter)
	Max      time.Duration `yaml:"max"`
}

// Limits bound the streams; 0 leaves one to the size of the disk.
type Limits struct {
	StartSize   Size `yaml:"start_size"`
	SignalSize  Size `yaml:"signal_size"`
	HistorySize Size `yaml:"history_size"`
	DLQSize     Size `yaml:"dlq_size"`
	BlobsSize   Size `yaml:"blobs_size"`
}

// Retention says how long what has ended is kept.
type Retention struct {
	Ended    time.Duration `yaml:"ended"`    // an ended run in Redis
	History  time.Duration `yaml:"history"`  // the records of an ended run
	Ledger   time.Duration `yaml:"ledger"`   // results under business keys
	Finished time.Duration `yaml:"finished"` // messages that tell of the ends of runs
}

// Effects configures the handlers that come with pawl.
type Effects struct {
	HTTP   EffectHTTP       `yaml:"http"`
	File   EffectFile       `yaml:"file"`
	Model  EffectModel      `yaml:"model"`
	Queued map[string]int   `yaml:"queued"` // effect type → its own worker.queued_max
	Limits map[string]Limit `yaml:"limits"` // effect type → limits over all workers
	Bound  map[string]Bound `yaml:"bound"`  // effect type → who serves it

	Policies map[string]Policy `yaml:"policies"` // effect type → how its attempts go
}

// EffectHTTP is for effects that call a URL taken from a run.
type EffectHTTP struct {
	AllowHosts []string      `yaml:"allow_hosts"`
	Timeout    time.Duration `yaml:"timeout"`
}

// EffectFile is for effects that write files.
type EffectFile struct {
	Dir string `yaml:"dir"` // after Load: data_dir/files unless given
}

// EffectModel is the language model that model.chat asks.
type EffectModel struct {
	URL     string        `yaml:"url"`  // empty: there is none
	Name    string        `yaml:"name"` // of the model
	Key     Secret        `yaml:"key" secret:"key_file"`
	KeyFile string        `yaml:"key_file"`
	Timeout time.Duration `yaml:"timeout"` // of one call
}

// Limit bounds an effect type over all workers, and each of its flow keys; 0 and
// "" are no limit. All workers of a fleet must be told the same.
type Limit struct {
	Concurrency int       `yaml:"concurrency"`  // under way at once
	PerKey      int       `yaml:"per_key"`      // … of one flow key
	Rate        flow.Rate `yaml:"rate"`         // begun: 100/s, 50/m, 1000/h
	RatePerKey  flow.Rate `yaml:"rate_per_key"` // … of one flow key
}

// Bound is an effect type served over HTTP, or over NATS. Its host needs no
// entry in allow_hosts: whoever writes this file has named it.
type Bound struct {
	URL     string        `yaml:"url"`
	Subject string        `yaml:"subject"` // of NATS, instead of a URL
	Timeout time.Duration `yaml:"timeout"` // after Load: effects.http.timeout unless given
	Verify  string        `yaml:"verify"`  // URL that tells what came of a call; empty: none does
	// Of what it accepts, and tells the result of later.
	Within    time.Duration `yaml:"within"`    // 0: 24 h
	Heartbeat time.Duration `yaml:"heartbeat"` // 0: within
	Tool      Tool          `yaml:"tool"`      // what a model is told of it; empty: it may not ask for it
}

// Tool is an effect as a model is told of it.
type Tool struct {
	Description string `yaml:"description"`
	Parameters  string `yaml:"parameters"` // JSON schema of the input
	Risky       bool   `yaml:"risky"`      // a person is asked before it is performed
}

// Policy says how the attempts of an effect type go. What is zero is as its
// handler says, and else as retry does.
type Policy struct {
	Attempts int           `yaml:"attempts"`
	Timeout  time.Duration `yaml:"timeout"` // of one attempt
	Initial  time.Duration `yaml:"initial"`
	Factor   float64       `yaml:"factor"`
	Max      time.Duration `yaml:"max"`
	InDoubt  InDoubt       `yaml:"in_doubt"`
	Queued   bool          `yaml:"queued"` // never inline
}

// InDoubt is what is done about a try of which nobody knows what came.
type InDoubt string

// What is done about it.
const (
	Repeat InDoubt = "repeat"
	Verify InDoubt = "verify"
	Halt   InDoubt = "halt"
)

// Log is about what the process says.
type Log struct {
	Level  slog.Level `yaml:"level"`
	Format LogFormat  `yaml:"format"`
}

// LogFormat is how log lines look.
type LogFormat string

// The formats of the log.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Default returns what holds when neither file nor environment says anything:
// an embedded fleet.
func Default() Config {
	c := defaults()
	c.resolve()
	return c
}

func defaults() Config {
	return Config{
		Mode:    ModeAuto,
		Prefix:  "pawl",
		DataDir: "./pawl-data",
		NATS: NATS{
			Listen:      "127.0.0.1:4222",
			Replicas:    1,
			GroupCommit: Auto,
		},
		Redis: Redis{Listen: "127.0.0.1:6380"},
		HTTP: HTTP{
			Addr:   "127.0.0.1:8080",
			Starts: HTTPStarts{InFlight: 64, Timeout: 5 * time.Second},
		},
		API:     API{Enabled: true},
		Metrics: Metrics{Every: 15 * time.Second},
		Worker: Worker{
			Lanes:         4,
			Batch:         256,
			InlineMax:     1000,
			InlinePerRun:  8,
			QueuedMax:     1000,
			InFlight:      10_000,
			AckWait:       10 * time.Second,
			EffectAckWait: 30 * time.Second,
			StopTimeout:   25 * time.Second,
			SweepEvery:    10 * time.Minute,
		},
		Retry: Retry{
			Attempts: 5,
			Initial:  time.Second,
			Factor:   2,
			Jitter:   0.5,
			Max:      60 * time.Second,
		},
		Limits: Limits{
			StartSize:  1 << 30,
			SignalSize: 1 << 30,
			DLQSize:    1 << 30,
		},
		Retention: Retention{
			Ended:    24 * time.Hour,
			History:  168 * time.Hour,
			Ledger:   9600 * time.Hour,
			Finished: 24 * time.Hour,
		},
		Effects: Effects{
			HTTP: EffectHTTP{
				AllowHosts: []string{"127.0.0.1", "localhost", "::1"},
				Timeout:    30 * time.Second,
			},
			Model: EffectModel{Timeout: 10 * time.Minute},
		},
		Log: Log{Level: slog.LevelInfo, Format: LogText},
	}
}

// resolve fills in what follows from other values.
func (c *Config) resolve() {
	if c.Mode == ModeAuto {
		c.Mode = ModeEmbedded
		if c.NATS.URL != "" && c.Redis.Addr != "" {
			c.Mode = ModeReal
		}
	}
	if c.Effects.File.Dir == "" {
		c.Effects.File.Dir = filepath.Join(c.DataDir, "files")
	}
	for name, b := range c.Effects.Bound {
		if b.Timeout == 0 {
			b.Timeout = c.Effects.HTTP.Timeout
			c.Effects.Bound[name] = b
		}
	}
}
