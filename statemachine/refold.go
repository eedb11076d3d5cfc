package statemachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Difference is what Refold found: the first field of the record that comes
// out differently.
type Difference struct {
	Run      string
	Rev      uint64
	Field    string // "data.total", "pending.0.input", …
	Recorded string // JSON, "" if it is not there
	Refolded string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("run %s, revision %d: %s is %s in the record, and %s when folded again",
		d.Run, d.Rev, d.Field, orNothing(d.Recorded), orNothing(d.Refolded))
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return trim(s, 200)
}

// Refold folds the events of a record again, on the record before (nil for the
// first), and returns a *Difference if another record comes out: then code has
// changed, or a callback uses more than the data and Meta. Bodies that are
// references are read by blob, which may be nil if there are none.
//
// Nothing depends on this: the committed record is what happened.
func (d *Definition) Refold(prev *Stored, next *Record, blob func(hash string) ([]byte, error)) error {
	run := &Difference{Run: next.Run, Rev: next.Rev}
	f := d.Begin(next.Run, prev, Env{Now: next.At, Build: next.Build, By: next.By, Place: placesOf(next)})
	f.sealLogs(next)
	if !next.Rolls() {
		f.turns = math.MaxUint64 // a build before did not roll
	}
	for _, e := range next.Events {
		if ref, ok := AsBlobRef(e.Body); ok {
			if blob == nil {
				return fmt.Errorf("event %s: its body is a blob", e.ID)
			}
			body, err := blob(ref.Hash)
			if err != nil {
				return fmt.Errorf("event %s: %w", e.ID, err)
			}
			e.Body = body
		}
		o, err := f.ApplyWith(e, blob)
		if err == nil && o != Applied {
			err = fmt.Errorf("outcome %s", o)
		}
		if err != nil {
			run.Field, run.Recorded, run.Refolded = "events", e.ID, err.Error()
			return run
		}
	}
	s, err := f.Seal()
	if err != nil {
		return err
	}
	if n := len(s.Outbox); n > len(next.Outbox) && s.Outbox[n-1].Kind == EntryFinished {
		s.Outbox = s.Outbox[:n-1] // made by a build that did not tell of ends
	}
	s.forget(next)
	if run.Field, run.Recorded, run.Refolded = firstDifference(next, s.Record); run.Field != "" {
		return run
	}
	return nil
}

// forget drops what builds before did not note, or noted in another way.
func (s *Sealed) forget(recorded *Record) {
	s.V = min(s.V, max(recorded.V, 1))
	was := map[string]*Pending{}
	for i := range recorded.Pending {
		was[recorded.Pending[i].ID] = &recorded.Pending[i]
	}
	for i := range s.Pending {
		p := was[s.Pending[i].ID]
		if p != nil && p.Redriven == 0 {
			s.Pending[i].Redriven = 0
		}
		if p != nil && p.Redrives == 0 {
			s.Pending[i].Redrives = 0
		}
	}
	for i := range min(len(s.Outbox), len(recorded.Outbox)) {
		if s.Outbox[i].Kind != EntryLetter || recorded.Outbox[i].Kind != EntryLetter {
			continue
		}
		var a, b Letter
		if unmarshal(s.Outbox[i].Body, &a) != nil || unmarshal(recorded.Outbox[i].Body, &b) != nil || a.Print == b.Print {
			continue
		}
		a.Print = b.Print
		s.Outbox[i].Body, _ = marshal(a) // it was decoded just now
	}
}

// placesOf answers as the worker did that made the record.
func placesOf(next *Record) func(*Pending) Place {
	return func(p *Pending) Place {
		for _, e := range next.Events {
			if e.Kind == EventQueue && e.Effect == p.ID {
				return Inline // when it was asked for
			}
		}
		for i := range next.Pending {
			if next.Pending[i].ID == p.ID {
				return next.Pending[i].Place
			}
		}
		return Inline
	}
}

// sealLogs repeats the calls of SealLog.
func (f *Fold) sealLogs(next *Record) {
	for _, name := range slices.Sorted(maps.Keys(next.Logs)) {
		if ref := next.Logs[name]; ref.Head != f.rec.Logs[name].Head {
			f.SealLog(name, ref.Head, ref.Sealed)
		}
	}
}

// firstDifference compares two records field by field, in the order of the
// format. The definition may differ, and with it the txid.
func firstDifference(a, b *Record) (field, inA, inB string) {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
		if name == "txid" || name == "def" {
			continue
		}
		ja, _ := marshal(va.Field(i).Interface())
		jb, _ := marshal(vb.Field(i).Interface())
		if field, inA, inB := diffJSON(name, ja, jb); field != "" {
			return field, inA, inB
		}
	}
	return "", "", ""
}

// diffJSON finds the first place where two JSON values differ.
func diffJSON(path string, a, b json.RawMessage) (field, inA, inB string) {
	DiffJSON(path, a, b, func(at string, va, vb json.RawMessage) bool {
		field, inA, inB = at, string(va), string(vb)
		return false
	})
	return field, inA, inB
}

// DiffJSON yields the places where two JSON values differ, as dotted paths that
// begin with path, with what is there: nothing if the place is only in the other.
// The order of fields does not count, and what is empty is as if it were not
// there. It reports whether all were yielded.
func DiffJSON(path string, a, b json.RawMessage, yield func(path string, a, b json.RawMessage) bool) bool {
	if bytes.Equal(a, b) || empty(a) && empty(b) {
		return true
	}
	ma, mb := children(a), children(b)
	if ma == nil || mb == nil {
		return yield(path, a, b)
	}
	keys := slices.Collect(maps.Keys(ma))
	for k := range mb {
		if _, ok := ma[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y string) int { // 10 comes after 9
		if len(x) != len(y) && ma["0"] != nil {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	for _, k := range keys {
		at := k
		if path != "" {
			at = path + "." + k
		}
		if !DiffJSON(at, ma[k], mb[k], yield) {
			return false
		}
	}
	return true
}

func empty(v json.RawMessage) bool {
	switch string(v) {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// children returns the fields of an object or the items of an array, nil for
// anything else.
func children(v json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(v, &m) == nil {
		return m
	}
	var items []json.RawMessage
	if json.Unmarshal(v, &items) != nil || items == nil {
		return nil
	}
	m = make(map[string]json.RawMessage, len(items))
	for i, item := range items {
		m[fmt.Sprint(i)] = item
	}
	return m
}
