package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/statemachine"
)

// resultAnswer is the answer to what came of an effect that was accepted.
type resultAnswer struct {
	Outcome string `json:"outcome"` // accepted: stored, and will be applied; or duplicate: it was
}

// result takes the result of an effect. Its token is all that is asked for.
func (s *Server) result(w http.ResponseWriter, req *http.Request) {
	b, err := body(w, req)
	s.take(w, req, api.ResultOf{Body: b}, err)
}

// failure takes that an effect failed: {"code": 500, "error": "why"}.
func (s *Server) failure(w http.ResponseWriter, req *http.Request) {
	b, err := body(w, req)
	var f struct {
		Code  int    `json:"code"`
		Error string `json:"error"`
	}
	if err == nil {
		if err = json.Unmarshal(b, &f); err != nil || f.Code < 300 || f.Code > 599 {
			err = refusal(api.ClassBadRequest, `a failure is {"code": 300 to 599, "error": "why"}`)
		}
	}
	s.take(w, req, api.ResultOf{Code: f.Code, Error: f.Error}, err)
}

// heartbeat takes that somebody is still at an effect.
func (s *Server) heartbeat(w http.ResponseWriter, req *http.Request) {
	s.take(w, req, api.ResultOf{Heartbeat: true}, nil)
}

// take stores what is waited for, and says why the rest is not. It looks at the
// run first: what is refused here would only be a dead letter.
func (s *Server) take(w http.ResponseWriter, req *http.Request, r api.ResultOf, err error) {
	r.Token = req.PathValue("token")
	outcome := statemachine.Applied
	if err == nil {
		err = s.ask(req.Context(), func(ctx context.Context) (err error) {
			outcome, err = s.awaits(ctx, r)
			if err != nil || outcome != statemachine.Applied {
				return err
			}
			return s.o.Results.Result(ctx, r)
		})
	}
	switch {
	case err != nil:
		s.refuse(w, err)
	case outcome == statemachine.Duplicate:
		answer(w, http.StatusOK, resultAnswer{"duplicate"})
	default:
		answer(w, http.StatusAccepted, resultAnswer{"accepted"})
	}
}

// awaits says what a result would be to its run.
func (s *Server) awaits(ctx context.Context, r api.ResultOf) (statemachine.Outcome, error) {
	c, known, err := s.o.Results.Awaited(ctx, r.Token)
	if err != nil {
		return statemachine.Applied, err
	}
	if !known {
		return statemachine.Stale, refusal(api.ClassNotFound, "the token is none that this fleet gave out")
	}
	last, err := s.o.Log.Look(ctx, c.Run)
	if err != nil {
		return statemachine.Applied, err
	}
	if last == nil {
		return statemachine.Stale, refusal(api.ClassNotFound, "the run of this token is no more")
	}
	o := last.Awaits(c.Effect, c.Try)
	if o != statemachine.Applied && o != statemachine.Duplicate {
		return o, &api.Error{Code: http.StatusGone, Class: "late_result", Message: "nothing is waited for with this token any more: it is too late"}
	}
	return o, nil
}
