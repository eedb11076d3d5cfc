package deadletter

import (
	"bytes"
	"encoding/json"
)

// MergePatch applies a JSON merge patch (RFC 7396): the fields of an object
// replace those of the target, null removes one, anything else is the new
// value. Both are JSON.
func MergePatch(target, patch []byte) (json.RawMessage, error) {
	var p map[string]json.RawMessage
	if json.Unmarshal(patch, &p) != nil || p == nil {
		return bytes.Clone(patch), nil
	}
	var t map[string]json.RawMessage
	if json.Unmarshal(target, &t) != nil || t == nil {
		t = map[string]json.RawMessage{}
	}
	for name, v := range p {
		if string(bytes.TrimSpace(v)) == "null" {
			delete(t, name)
			continue
		}
		merged, err := MergePatch(t[name], v)
		if err != nil {
			return nil, err
		}
		t[name] = merged
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
