package worker

import (
	"bytes"
	"encoding/json"
)

// resolveLogs replaces every {"$log": name, "to": n} in a JSON value by the
// first n items of that log, as an array.
func resolveLogs(value []byte, items func(log string, to int) ([]json.RawMessage, error)) ([]byte, error) {
	value = bytes.TrimSpace(value)
	if !bytes.Contains(value, []byte(`"$log"`)) {
		return value, nil
	}
	switch value[0] {
	case '{':
		var ref struct {
			Log *string `json:"$log"`
			To  int     `json:"to"`
		}
		if err := json.Unmarshal(value, &ref); err == nil && ref.Log != nil {
			all, err := items(*ref.Log, ref.To)
			if err != nil {
				return nil, err
			}
			return json.Marshal(all)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil {
			return nil, err
		}
		for k, v := range fields {
			r, err := resolveLogs(v, items)
			if err != nil {
				return nil, err
			}
			fields[k] = r
		}
		return json.Marshal(fields)
	case '[':
		var elems []json.RawMessage
		if err := json.Unmarshal(value, &elems); err != nil {
			return nil, err
		}
		for i, v := range elems {
			r, err := resolveLogs(v, items)
			if err != nil {
				return nil, err
			}
			elems[i] = r
		}
		return json.Marshal(elems)
	}
	return value, nil
}
