package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/bulk"
)

// The audit record is bounded: what is older, or more, goes.
const (
	auditBytes = 64 << 20
	auditFor   = 400 * 24 * time.Hour
)

// Audit is the record of who changed many things at once, and why.
type Audit struct{ *link }

// Write stores a line.
func (a *Audit) Write(ctx context.Context, e bulk.Entry) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	m := &nats.Msg{Subject: a.subj.audit(e.Step), Data: body}
	if _, err := (&Sender{a.link}).tell(ctx, "audit record", streamAudit, m); err != nil {
		return err
	}
	return nil
}

// All yields the lines, oldest first.
func (a *Audit) All(ctx context.Context) iter.Seq2[bulk.Entry, error] {
	return func(yield func(bulk.Entry, error) bool) {
		for after := uint64(0); ; {
			msgs, _, err := a.series(ctx, streamAudit, map[string]any{
				"next_by_subj": a.subj.audit("*"), "seq": after + 1, "batch": readChunk, "max_bytes": answerBytes,
			})
			if err != nil {
				yield(bulk.Entry{}, fmt.Errorf("read the audit record: %w", err))
				return
			}
			for _, m := range msgs {
				after = m.seq
				var e bulk.Entry
				if err := json.Unmarshal(m.data, &e); err != nil {
					err = fmt.Errorf("audit record, line %d: %w", m.seq, err)
					if !yield(bulk.Entry{}, err) {
						return
					}
					continue
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(msgs) == 0 {
				return
			}
		}
	}
}
