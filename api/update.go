package api

import (
	"context"

	"github.com/pawlrun/pawl/statemachine"
)

// update tells a run something that its machine answers, and waits for the
// answer.
func (s *Server) update(ctx context.Context, c Caller, q *UpdateRequest) (*Told, error) {
	var f faults
	f.run(q.ID)
	f.id("update_id", &q.UpdateID)
	by := c.recorded(q.By)
	f.text("by", by, maxID)
	timeout := f.timeout(q.Timeout, usualWait)
	if len(q.Body) > statemachine.MaxSignal {
		return nil, errorf(ClassTooLarge, "the body has %d bytes, over %d", len(q.Body), statemachine.MaxSignal)
	}
	cmd := statemachine.Command{By: by, Name: q.Name, Input: q.Body}
	f.add(cmd.Check(statemachine.EventUpdate))
	if err := f.err(); err != nil {
		return nil, err
	}
	told, err := s.tell(ctx, timeout, message{
		run: q.ID, what: "update " + quoted(q.Name), event: statemachine.CommandEventID(q.UpdateID), refused: refusedUpdate,
		fits: func(r *statemachine.Stored) error {
			if d := s.answers.maker(r.Record); d != nil { // else who drives it says so
				return notTaken(r.Run, d.CheckUpdate(q.Name, q.Body))
			}
			return nil
		},
		send: func(ctx context.Context) error {
			return s.answers.Sender.Command(ctx, Command{Run: q.ID, Kind: statemachine.EventUpdate, ID: q.UpdateID, Command: cmd})
		},
	})
	if told != nil {
		told.UpdateID = q.UpdateID
	}
	return told, err
}

// refusedUpdate is what the refusal of an update is to who asked. Its class may
// be one that the machine's author chose, whatever that means elsewhere.
func refusedUpdate(r *statemachine.Record, why *statemachine.Cause) error {
	if why.Class == statemachine.ClassEnding {
		return refusedBy(r, why)
	}
	return refusedAs(unprocessable, r, why)
}

// unprocessable is the code of what a machine refuses.
const unprocessable = 422

// notTaken is why a machine does not take what a run is to be told; nil if it
// does.
func notTaken(run string, why error) error {
	if why == nil {
		return nil
	}
	return errorf(statemachine.ClassOf(why), "run %s: %s", quoted(run), why)
}
