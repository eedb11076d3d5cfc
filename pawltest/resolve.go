package pawltest

import (
	"bytes"
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
	if !bytes.Contains(v, []byte(`"$log"`)) {
		return v
	}
	var items []json.RawMessage
	if json.Unmarshal(v, &items) == nil {
		for i := range items {
			items[i] = r.resolveLogs(items[i])
		}
		return r.encode(items)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(v, &fields) != nil {
		return v // a string that happens to contain the word
	}
	if name, to, ok := logRef(fields); ok && to <= len(r.logs[name]) {
		return r.encode(append([]json.RawMessage{}, r.logs[name][:to]...))
	}
	for k := range fields {
		fields[k] = r.resolveLogs(fields[k])
	}
	return r.encode(fields)
}

// logRef reports whether an object is {"$log": name, "to": count}.
func logRef(fields map[string]json.RawMessage) (name string, to int, ok bool) {
	if len(fields) != 2 || json.Unmarshal(fields["$log"], &name) != nil || json.Unmarshal(fields["to"], &to) != nil {
		return "", 0, false
	}
	return name, to, to >= 0
}

func (r *Run) encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		r.t.Fatalf("resolve: %v", err)
	}
	return b
}
