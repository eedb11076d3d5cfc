package pawltest

import (
	"encoding/json"

	sm "github.com/pawlrun/pawl/statemachine"
)

// resolve returns a recorded value as a handler gets it: blobs and logs in
// place of the references to them.
func (r *Run) resolve(v json.RawMessage) json.RawMessage {
	r.t.Helper()
	if ref, ok := sm.AsBlobRef(v); ok {
		b, ok := r.blobs[ref.Hash]
		if !ok {
			r.t.Fatalf("blob %s was never stored", ref.Hash)
		}
		v = b
	}
	return r.resolveLogs(v)
}

// values resolves the items of a log.
func (r *Run) values(items []json.RawMessage) []json.RawMessage {
	values := make([]json.RawMessage, len(items))
	for i, item := range items {
		if ref, ok := sm.AsBlobRef(item); ok {
			item = r.blobs[ref.Hash]
		}
		values[i] = item
	}
	return values
}

// resolveLogs replaces references to logs, at any depth.
func (r *Run) resolveLogs(v json.RawMessage) json.RawMessage {
	r.t.Helper()
	v, err := sm.ResolveLogs(v, func(log string, to int) ([]json.RawMessage, bool, error) {
		if to > len(r.logs[log]) {
			return nil, false, nil
		}
		return r.logs[log][:to], true, nil
	})
	if err != nil {
		r.t.Fatalf("resolve: %v", err)
	}
	return v
}
