package natsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/logkey"
)

// Config says who answers.
type Config struct {
	Prefix string // of the fleet
	Worker string // id of the worker
	Build  string // its code
	// Machines, as name@version, and Effects are what the worker can do.
	Machines, Effects []string
	Stats             func() api.WorkerStats
	Logger            *slog.Logger // default: discards
	// Done is told of each request: what was asked, "ok" or the class of the
	// error, and how long it took. Default: nobody.
	Done func(verb, outcome string, took time.Duration)
}

// Service answers the requests that come over a connection.
type Service struct {
	cfg    Config
	nc     *nats.Conn
	server *api.Server

	mu      sync.Mutex
	closed  bool           // no request is taken any more
	running sync.WaitGroup // requests under way
}

// New returns a service that is not running yet.
func New(nc *nats.Conn, server *api.Server, cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Stats == nil {
		cfg.Stats = func() api.WorkerStats { return api.WorkerStats{} }
	}
	if cfg.Done == nil {
		cfg.Done = func(string, string, time.Duration) {}
	}
	return &Service{cfg: cfg, nc: nc, server: server}
}

// flushTime is how long a stop waits for the server to have sent the last
// requests.
const flushTime = time.Second

// Run answers requests until ctx ends. Then it takes no more, answers those
// under way, at once if they wait, and returns.
func (s *Service) Run(ctx context.Context) error {
	defer s.server.Close()
	service, err := s.listen()
	if err != nil {
		s.finish() // what was offered already may have been asked for
		return fmt.Errorf("offer the control API: %w", err)
	}
	<-ctx.Done()
	err = service.Stop()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	s.server.Hurry()
	// What the server has sent by then is still answered.
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if ferr := s.nc.FlushWithContext(flush); ferr != nil {
		s.cfg.Logger.Debug("control API: the server did not answer the last flush", logkey.Error, ferr)
	}
	s.finish()
	return err
}

// finish takes no more requests, and waits for those under way.
func (s *Service) finish() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
}

// listen offers all verbs.
func (s *Service) listen() (micro.Service, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	meta := map[string]string{
		api.MetaWorker: s.cfg.Worker, api.MetaBuild: s.cfg.Build, api.MetaHost: host,
		api.MetaPID: strconv.Itoa(os.Getpid()), api.MetaStarted: time.Now().UTC().Format(time.RFC3339),
		"prefix": s.cfg.Prefix,
	}
	tell(meta, api.MetaMachines, s.cfg.Machines)
	tell(meta, api.MetaEffects, s.cfg.Effects)
	service, err := micro.AddService(s.nc, micro.Config{
		Name: api.ServiceName, QueueGroup: api.ServiceGroup, Version: semver(s.cfg.Build), Description: "Control API of a pawl fleet",
		Metadata:     meta,
		StatsHandler: func(*micro.Endpoint) any { return s.cfg.Stats() },
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.cfg.Logger.Warn("control API: nats reported an error", logkey.Subject, e.Subject, logkey.Error, e.Description)
		},
	})
	if err != nil {
		return nil, err
	}
	for _, v := range api.Verbs() {
		name := strings.ReplaceAll(string(v), ".", "-")
		role := micro.WithEndpointMetadata(map[string]string{"role": string(v.Role())})
		err := errors.Join(
			service.AddEndpoint(name, s.handler(v, false), micro.WithEndpointSubject(api.Subject(s.cfg.Prefix, "", v)), role),
			service.AddEndpoint("as-"+name, s.handler(v, true), micro.WithEndpointSubject(api.Subject(s.cfg.Prefix, "*", v)), role),
		)
		if err != nil {
			return nil, errors.Join(err, service.Stop())
		}
	}
	return service, nil
}

// handler takes the requests of a verb. It never blocks, and answers nothing
// itself: what it is given is not to be used by others.
func (s *Service) handler(v api.Verb, verified bool) micro.HandlerFunc {
	return func(req micro.Request) {
		body, reply := req.Data(), req.Reply()
		c := api.Caller{Role: v.Role(), Verified: verified}
		if verified { // <prefix>.api.as.<user>.…
			c.User, _, _ = strings.Cut(strings.TrimPrefix(req.Subject(), s.cfg.Prefix+".api.as."), ".")
		}
		s.mu.Lock()
		if !s.closed {
			s.running.Go(func() { s.answer(c, v, body, reply) })
		}
		s.mu.Unlock()
	}
}

// answer answers a request. Whoever asked may be gone: that is no error.
func (s *Service) answer(c api.Caller, v api.Verb, body []byte, reply string) {
	began := time.Now()
	answer, err := s.server.Do(context.Background(), c, v, body)
	s.cfg.Done(string(v), outcome(err), time.Since(began))
	if reply == "" {
		return // it was carried out, for somebody who does not want to know
	}
	if most := s.nc.MaxPayload(); err == nil && int64(len(answer)) > most {
		err = &api.Error{
			Code: api.CodeOf(api.ClassTooLarge), Class: api.ClassTooLarge,
			Message: fmt.Sprintf("the answer has %d bytes, and the server takes %d: ask for less", len(answer), most),
		}
	}
	m := &nats.Msg{Subject: reply, Data: answer}
	if err != nil {
		e := api.ErrorOf(err)
		m.Data, _ = json.Marshal(e) // texts
		m.Header = nats.Header{api.HeaderCode: {strconv.Itoa(e.Code)}, api.HeaderError: {line(e.Message)}}
	}
	if err := s.nc.PublishMsg(m); err != nil {
		s.cfg.Logger.Warn("control API: could not answer", logkey.Name, string(v), logkey.Error, err)
	}
}

// outcome is an error in one word, of a few: the class of a start's letter is
// as many words as handlers know.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if e := api.ErrorOf(err); e.Code != 422 {
		return e.Class
	}
	return "refused"
}

// mostLine is how much of an error its header has.
const mostLine = 1024

// line is a text as a header can carry it: one line of bounded length.
func line(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	if len(text) > mostLine {
		text = strings.ToValidUTF8(text[:mostLine], "") + "…"
	}
	return text
}

// The version of a service is one of semver, a build need not be.
var (
	semverRE = regexp.MustCompile(`^v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)$`)
	otherRE  = regexp.MustCompile(`[^0-9A-Za-z-]+`)
)

// semver is a build as a version: itself, or what it is, of version 0.0.0.
func semver(build string) string {
	if m := semverRE.FindStringSubmatch(build); m != nil {
		return m[1]
	}
	if build = strings.Trim(otherRE.ReplaceAllString(build, "-"), "-"); build != "" {
		return "0.0.0+" + build
	}
	return "0.0.0"
}
