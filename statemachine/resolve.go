package statemachine

import (
	"bytes"
	"encoding/json"
)

// ResolveLogs replaces references to logs in an effect's input, at any depth,
// by their items: what a handler gets. Items returns the first to items of a
// log; false if the run has no such log, or not so many items: then what looks
// like a reference is none, and stays.
func ResolveLogs(input json.RawMessage, items func(log string, to int) ([]json.RawMessage, bool, error)) (json.RawMessage, error) {
	input = bytes.TrimSpace(input)
	if !bytes.Contains(input, []byte(`"$log"`)) {
		return input, nil
	}
	switch input[0] {
	case '{':
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(input, &fields); err != nil {
			return nil, err
		}
		if name, to, ok := asLogRef(fields); ok {
			all, ok, err := items(name, to)
			if err != nil || ok {
				return encodeItems(all, err)
			}
			return input, nil
		}
		for k, v := range fields {
			r, err := ResolveLogs(v, items)
			if err != nil {
				return nil, err
			}
			fields[k] = r
		}
		return marshal(fields)
	case '[':
		var elems []json.RawMessage
		if err := json.Unmarshal(input, &elems); err != nil {
			return nil, err
		}
		for i, v := range elems {
			r, err := ResolveLogs(v, items)
			if err != nil {
				return nil, err
			}
			elems[i] = r
		}
		return marshal(elems)
	}
	return input, nil // a string that contains the word
}

func encodeItems(all []json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = []json.RawMessage{}
	}
	return marshal(all)
}

// asLogRef reports whether an object is {"$log": name, "to": count}.
func asLogRef(fields map[string]json.RawMessage) (name string, to int, ok bool) {
	if len(fields) != 2 || json.Unmarshal(fields["$log"], &name) != nil || json.Unmarshal(fields["to"], &to) != nil {
		return "", 0, false
	}
	return name, to, to >= 0
}
