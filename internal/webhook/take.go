package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/logkey"
	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/statemachine"
)

// The headers that name what is sent.
const (
	headerRun      = "Pawl-Run-Id"
	headerSignal   = "Pawl-Signal-Id"
	headerKey      = "Idempotency-Key"
	headerVersion  = "Pawl-Machine-Version"
	headerPriority = "Pawl-Priority"
	headerTenant   = "Pawl-Tenant"
	headerStartAt  = "Pawl-Start-At"
)

// accepted is the answer to what was stored.
type accepted struct {
	Run     string `json:"run"`
	Signal  string `json:"signal,omitempty"` // id of the signal
	Outcome string `json:"outcome"`          // always "accepted": what comes of it, the run tells
}

func (s *Server) start(w http.ResponseWriter, req *http.Request) {
	a, err := s.readStart(w, req)
	if err == nil {
		err = s.ask(req.Context(), func(ctx context.Context) error { _, err := s.o.Sender.Start(ctx, a); return err })
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusAccepted, accepted{Run: a.Run, Outcome: "accepted"})
}

func (s *Server) readStart(w http.ResponseWriter, req *http.Request) (a api.Start, err error) {
	a.Machine = req.PathValue("machine")
	if !queue.IsName(a.Machine) {
		return a, refusal(api.ClassNotFound, "%q is no name of a machine", bounded(a.Machine))
	}
	if text := req.Header.Get(headerVersion); text != "" {
		if a.Version, err = strconv.Atoi(text); err != nil || a.Version < 1 {
			return a, refusal(api.ClassBadRequest, "%s: %q is no version: they count from 1", headerVersion, bounded(text))
		}
	}
	if text := req.Header.Get(headerPriority); text != "" {
		if a.Priority, err = queue.ParsePriority(text); err != nil {
			return a, refusal(api.ClassBadRequest, "%s: %s", headerPriority, err)
		}
	}
	if a.Tenant = req.Header.Get(headerTenant); a.Tenant != "" {
		if err := queue.CheckTenant(a.Tenant); err != nil {
			return a, refusal(api.ClassBadRequest, "%s: %s", headerTenant, err)
		}
	}
	if text := req.Header.Get(headerStartAt); text != "" {
		at, err := queue.ParseStartAt(text)
		if err != nil {
			return a, refusal(api.ClassBadRequest, "%s: %s", headerStartAt, err)
		}
		a.At = &at
	}
	if a.Run, err = idOf(req, headerRun); err != nil {
		return a, err
	}
	if a.Run == "" {
		a.Run = a.Machine + "-" + queue.NewID()
	}
	if a.Input, err = body(w, req); err != nil {
		return a, err
	}
	// Only a sure answer refuses: a start that is stored is at worst a letter.
	known := false
	err = s.ask(req.Context(), func(ctx context.Context) (err error) {
		known, err = s.o.Machines.Known(ctx, a.Machine, a.Version)
		return err
	})
	switch {
	case err != nil:
		s.o.Logger.Debug("could not look a machine up", logkey.Machine, a.Machine, logkey.Error, err)
	case !known && a.Version > 0:
		return a, refusal(api.ClassNotFound, "no worker of this fleet knows version %d of a machine %q", a.Version, a.Machine)
	case !known:
		return a, refusal(api.ClassNotFound, "no worker of this fleet knows a machine %q", a.Machine)
	}
	return a, nil
}

func (s *Server) signal(w http.ResponseWriter, req *http.Request) {
	a := api.SignalTo{Run: req.PathValue("run"), Name: req.PathValue("name")}
	err := checkID("run", a.Run)
	if err == nil && !queue.IsName(a.Name) {
		err = refusal(api.ClassBadRequest, "%q is no name of a signal", bounded(a.Name))
	}
	if err == nil {
		a.ID, err = idOf(req, headerSignal)
	}
	if err == nil {
		if a.ID == "" {
			a.ID = queue.NewID()
		}
		a.Body, err = body(w, req)
	}
	if err == nil && len(a.Body) > statemachine.MaxSignal { // a worker would only have a letter of it
		err = refusal(api.ClassTooLarge, "the body of a signal has more than %d bytes", statemachine.MaxSignal)
	}
	if err == nil {
		err = s.ask(req.Context(), func(ctx context.Context) error { return s.o.Sender.Signal(ctx, a) })
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusAccepted, accepted{Run: a.Run, Signal: a.ID, Outcome: "accepted"})
}

// status is how a run stands. Its data is not for whoever may start runs.
type status struct {
	Run      string              `json:"run"`
	Machine  string              `json:"machine"`
	Version  int                 `json:"version"`
	State    string              `json:"state"`
	Status   statemachine.Status `json:"status"`
	Revision uint64              `json:"revision"`
	Started  time.Time           `json:"started"`
	Updated  time.Time           `json:"updated"`
	Error    string              `json:"error,omitempty"` // class of why it failed or is parked
}

func (s *Server) run(w http.ResponseWriter, req *http.Request) {
	id := req.PathValue("run")
	err := checkID("run", id)
	var r *api.Run
	if err == nil {
		err = s.ask(req.Context(), func(ctx context.Context) (err error) { r, err = s.o.Runs.Run(ctx, id, 0); return err })
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	a := status{Run: r.ID, Machine: r.Machine, Version: r.Version, State: r.State, Status: r.Status, Revision: r.Revision, Started: r.Started, Updated: r.Updated}
	if r.Error != nil {
		a.Error = r.Error.Class
	}
	answer(w, http.StatusOK, a)
}

// ask does what goes to the stores, within the time there is for it. A client
// that hangs up does not stop it: what is half sent may be stored.
func (s *Server) ask(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	return do(ctx)
}

// body reads the body, which must be JSON.
func body(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if e := req.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, &api.Error{Code: http.StatusUnsupportedMediaType, Class: api.ClassBadRequest, Message: fmt.Sprintf("Content-Encoding %q is not taken: send it as it is", bounded(e))}
	}
	b, err := read(w, req)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &api.Error{Code: http.StatusRequestTimeout, Class: api.ClassBadRequest, Message: fmt.Sprintf("the body came too slowly: %d bytes in %v are the least", piece, pieceTimeout)}
	case errors.As(err, &large):
		return nil, refusal(api.ClassTooLarge, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, refusal(api.ClassBadRequest, "the body did not arrive: %s", err)
	case len(b) == 0:
		return nil, refusal(api.ClassBadRequest, "the body is empty: {} is the least")
	case !json.Valid(b):
		var v any
		return nil, refusal(api.ClassBadRequest, "the body is not JSON: %s", json.Unmarshal(b, &v))
	}
	return b, nil
}

// read reads a body that comes fast enough: one that does not holds a place
// that others wait for.
func read(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	var all bytes.Buffer
	from, deadline := http.MaxBytesReader(w, req.Body, maxBody), http.NewResponseController(w)
	for {
		if err := deadline.SetReadDeadline(time.Now().Add(pieceTimeout)); err != nil {
			return nil, err
		}
		switch _, err := io.CopyN(&all, from, piece); {
		case errors.Is(err, io.EOF):
			return all.Bytes(), deadline.SetReadDeadline(time.Time{})
		case err != nil:
			return nil, err
		}
	}
}

// idOf is the id that a request names: in our header, or as Idempotency-Key,
// where it may stand in quotes. It is "" if there is none.
func idOf(req *http.Request, header string) (string, error) {
	id, key := req.Header.Get(header), req.Header.Get(headerKey)
	if n := len(key); n > 1 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	switch {
	case id == "":
		id, header = key, headerKey
	case key != "" && key != id:
		return "", refusal(api.ClassBadRequest, "%s and %s differ: one of them is enough", header, headerKey)
	}
	if id == "" {
		return "", nil
	}
	return id, checkID(header, id)
}

// checkID refuses what is no id, and what a header would not carry as it is.
func checkID(what, id string) error {
	if queue.CheckRun(id) != nil {
		return refusal(api.ClassBadRequest, "%s: an id is UTF-8, of 1 to 256 bytes", what)
	}
	if !queue.FitsHeader(id) {
		return refusal(api.ClassBadRequest, "%s: an id has no control characters, and no blanks at its ends", what)
	}
	return nil
}

func refusal(class, format string, a ...any) error {
	return &api.Error{Code: api.CodeOf(class), Class: class, Message: fmt.Sprintf(format, a...)}
}

// bounded is a text from outside, short enough for an error.
func bounded(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// refuse answers an error. Of the stores' own words, which may name servers,
// only the log has all.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	e := api.ErrorOf(err)
	switch e.Class {
	case api.ClassFull:
		s.o.Logger.Warn("could not take a request", logkey.Error, err)
		e = &api.Error{Code: e.Code, Class: e.Class, Message: "there is no room: it was not stored; send it again later"}
	case api.ClassUnavailable, api.ClassTimeout:
		s.o.Logger.Warn("could not take a request", logkey.Error, err)
		e = &api.Error{Code: e.Code, Class: e.Class, Message: "it is not known to be stored: send it again with the same id, it counts once"}
	case api.ClassInternal:
		s.o.Logger.Error("could not answer a request", logkey.Error, err)
		e = &api.Error{Code: e.Code, Class: e.Class, Message: "a fault of the server, see its log"}
	}
	fail(w, e)
}
