package statemachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxQuery is how many bytes of JSON a query may answer.
const MaxQuery = 256 << 10

// query is what can be asked of a run, without the type of the data.
type query struct {
	name   string
	answer func(data any) any // nil: it has none
}

// ErrNoQuery is returned for a query that the machine does not have.
var ErrNoQuery = errors.New("no such query")

// Query declares what can be asked of a run by a name: answer makes it of the
// data, as the run's last record has it, whether the run moves, waits or has
// ended. It is pure and changes nothing; what it returns becomes JSON of at most
// MaxQuery bytes. Of a log it knows the length, not the items. A query is no
// part of the machine's graph and may be added, changed and removed freely.
func (m *Machine[T]) Query(name string, answer func(*T) any) {
	q := query{name: name}
	if answer != nil {
		q.answer = func(d any) any { return answer(d.(*T)) }
	}
	m.queries = append(m.queries, q)
}

// Queries are the names of what can be asked of a run.
func (d *Definition) Queries() []string {
	names := make([]string, len(d.queries))
	for i, q := range d.queries {
		names[i] = q.name
	}
	return names
}

// Query answers a query of a run as it is in a record. ErrNoQuery is returned
// for one that the machine does not have; a *FaultError says that it cannot
// answer.
func (d *Definition) Query(r *Stored, name string) (answer json.RawMessage, err error) {
	at := slices.IndexFunc(d.queries, func(q query) bool { return q.name == name })
	if at < 0 {
		has := "has none"
		if len(d.queries) > 0 {
			has = "has " + strings.Join(d.Queries(), ", ")
		}
		return nil, fmt.Errorf("%w: machine %s version %d %s: %q is unknown", ErrNoQuery, d.Name, d.Version, has, trim(name, 64))
	}
	f := d.Begin(r.Run, r, Env{Now: r.At})
	if err := errors.Join(f.err, f.fits()); err != nil {
		return nil, err
	}
	s := &step{f: f}
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, s.fault(ClassPanic, panicked(r))
		}
	}()
	if err := s.load(false); err != nil {
		return nil, err
	}
	if answer, err = marshal(d.queries[at].answer(s.data)); err != nil {
		return nil, s.fault(ClassInvalidData, err)
	}
	if err := within("answer of a query", len(answer), MaxQuery); err != nil {
		return nil, err
	}
	return answer, nil
}

// checkQueries checks the names of queries.
func (d *Definition) checkQueries() {
	seen := map[string]bool{}
	for _, q := range d.queries {
		switch {
		case !validName(q.name, false):
			d.fault("", "query %q: not a name (%s)", q.name, nameGrammar)
		case seen[q.name]:
			d.fault("", "query %q: declared twice", q.name)
		case q.answer == nil:
			d.fault("", "query %q: has no function", q.name)
		}
		seen[q.name] = true
	}
}
