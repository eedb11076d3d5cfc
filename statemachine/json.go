package statemachine

import (
	"bytes"
	"encoding/json"
	"errors"
)

// marshal is json.Marshal without escaping for HTML: values stay as they were
// given.
func marshal(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return compact(raw)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// unmarshal decodes a value; no bytes at all are null.
func unmarshal(b json.RawMessage, v any) error {
	if len(b) == 0 {
		b = json.RawMessage("null")
	}
	return json.Unmarshal(b, v)
}

// unmarshalStrict decodes a value and refuses fields that v does not have.
func unmarshalStrict(b json.RawMessage, v any) error {
	if len(b) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one JSON value")
	}
	return nil
}

// compact returns the value without white space; nil if there is none.
func compact(b json.RawMessage) (json.RawMessage, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var buf bytes.Buffer
	buf.Grow(len(b))
	if err := json.Compact(&buf, b); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
