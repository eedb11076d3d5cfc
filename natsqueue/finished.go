package natsqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/outbox"
	"github.com/pawlrun/pawl/statemachine"
)

// finished is the body of the message that tells of the end of a run. Its
// fields are permanent.
type finished struct {
	Run      string              `json:"run"`
	Machine  string              `json:"machine"`
	Version  int                 `json:"version"`
	Status   statemachine.Status `json:"status"`
	State    string              `json:"state"`
	Revision uint64              `json:"revision"`
	Data     json.RawMessage     `json:"data,omitempty"`  // as in the record, with references to logs
	Error    *statemachine.Cause `json:"error,omitempty"` // why it failed or was cancelled
	Started  time.Time           `json:"started"`
	Ended    time.Time           `json:"ended"`
}

// finished makes the message of a run's end. Its Nats-Msg-Id is the id of the
// record, so what is published twice within the stream's window is there once.
func (p *Publisher) finished(item outbox.Item) (*nats.Msg, error) {
	r := item.Record
	if r == nil || !r.Status.Ended() {
		return nil, errors.New("the run has not ended")
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // data stays as it is in the record
	err := enc.Encode(finished{
		Run: r.Run, Machine: r.Machine, Version: r.Version, Status: r.Status, State: r.To, Revision: r.Rev,
		Data: r.Data, Error: r.Cause, Started: r.Started, Ended: r.At,
	})
	if err != nil {
		return nil, fmt.Errorf("the end of the run: %w", err)
	}
	return &nats.Msg{Subject: p.subj.finished(r.Machine), Data: bytes.TrimSuffix(body.Bytes(), []byte{'\n'}), Header: nats.Header{
		headerRun: {headerValue(r.Run)}, headerMsgID: {r.Txid},
	}}, nil
}
