package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/internal/cli"
	"github.com/pawlrun/pawl/statemachine"
)

// errNobody is returned when no worker answers the control API. What was asked
// may have been done, if somebody took the request and died with it.
var errNobody = errors.New("no worker answers")

// ask asks the control API, once: any worker answers, and whether one is there
// is known at once. errNobody is returned if none does; an answer that is an
// error is an *api.Error; a refusal of the server is a *cli.Error.
func (a *app) ask(ctx context.Context, f *cli.Fleet, v api.Verb, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	optional, cancel := a.Optional(ctx)
	defer cancel()
	within, cancelTime := context.WithTimeout(optional, a.Timeout)
	defer cancelTime()
	m, err := f.Conn.RequestWithContext(within, api.Subject(a.Prefix, string(a.user), v), body)
	if err != nil {
		refused, is := errors.AsType[*cli.Error](context.Cause(optional))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case is:
			return refused
		case errors.Is(err, nats.ErrNoResponders):
			return errNobody
		case within.Err() != nil:
			return fmt.Errorf("%w within %v", errNobody, a.Timeout)
		case errors.Is(err, nats.ErrMaxPayload):
			return fmt.Errorf("ask the fleet: %d bytes: %w", len(body), err)
		}
		return fmt.Errorf("%w: %w", errNobody, err)
	}
	if code := m.Header.Get(api.HeaderCode); code != "" {
		e := &api.Error{Message: m.Header.Get(api.HeaderError)}
		_ = json.Unmarshal(m.Data, e) // what is not there stays as the header says
		e.Code, _ = strconv.Atoi(code)
		return e
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("read the answer of the fleet: %w", err)
	}
	return nil
}

// patience is how long a worker may wait for what comes of a change, so that it
// answers before this tool stops listening.
func (a *app) patience() *statemachine.Duration {
	d := statemachine.Duration(min(a.Timeout*3/4, api.MaxWait))
	return &d
}

// change asks the control API for a change. With no worker there it does what a
// worker would: it looks at the run, and sends the same message, which the
// first worker that starts applies. alone reports that.
func (a *app) change(ctx context.Context, f *cli.Fleet, v api.Verb, request, alone, answer any) (nobody error, err error) {
	err = a.ask(ctx, f, v, request, answer)
	if !errors.Is(err, errNobody) {
		return nil, advise(err)
	}
	nobody = err
	within, cancel := context.WithTimeout(ctx, 2*a.Timeout)
	defer cancel()
	body, err := json.Marshal(alone)
	if err != nil {
		return nobody, fmt.Errorf("encode the request: %w", err)
	}
	if c, err := a.catalog(); err == nil { // else who drives the machine judges
		f.Answers.Definitions = c
	}
	local := api.NewServer(f.Answers, api.ServerOptions{Timeout: a.Timeout})
	defer local.Close()
	b, err := local.Do(within, api.Caller{Role: v.Role()}, v, body)
	if err != nil {
		return nobody, advise(err)
	}
	return nobody, json.Unmarshal(b, answer)
}

// advise adds what may be done about an error of the control API.
func advise(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	hint := ""
	switch e.Class {
	case statemachine.ClassUnknownApproval:
		hint = "pawl approval ls"
	case api.ClassForbidden:
		hint = "it needs another role; sign in as somebody who may"
	case api.ClassConflict:
		hint = "choose another with --id"
	case api.ClassBusy, api.ClassTimeout, api.ClassUnavailable:
		hint = "the same may be asked for again"
	case api.ClassNotFound:
		hint = "is it the right fleet? -s URL, --prefix"
	}
	return &cli.Error{Err: err, Hint: hint}
}

// sayNobody says that there is no worker.
func (a *app) sayNobody(nobody error) {
	if nobody == nil {
		return
	}
	what := "no worker is alive: the first that starts carries it out"
	if text := strings.TrimPrefix(nobody.Error(), errNobody.Error()); text != "" {
		what = nobody.Error() + ": it will be carried out once"
	}
	fmt.Fprintln(a.Stderr, "accepted:", what)
}
