package statemachine

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// scan reads what appender writes: the fields in their order, no white space.
// Whatever else may be valid it leaves to encoding/json, which is ten times
// slower: then bad is set. Tests compare the two.
type scan struct {
	s     string // the record; strings are parts of it
	b     []byte // the same; raw values are parts of it
	i     int
	first bool // no field or item of the innermost object or array was read
	bad   bool
}

// scanRecord reads a record as it is written; false if it is not.
func scanRecord(b []byte) (*Record, bool) {
	p := &scan{s: string(b), b: append(make([]byte, 0, len(b)), b...)}
	r := new(Record)
	readRecord(p, r)
	return r, !p.bad && p.i == len(p.b)
}

func (p *scan) at() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *scan) expect(c byte) {
	if p.at() != c {
		p.bad = true
		return
	}
	p.i++
}

func (p *scan) open(c byte) {
	p.expect(c)
	p.first = true
}

func (p *scan) end(c byte) {
	p.expect(c)
	p.first = false
}

// field reports whether the field comes next, and goes to its value.
func (p *scan) field(name string) bool {
	i := p.i
	if !p.first {
		if p.at() != ',' {
			return false
		}
		i++
	}
	rest := p.s[i:]
	if len(rest) < len(name)+3 || rest[0] != '"' || rest[1:len(name)+1] != name || rest[len(name)+1:len(name)+3] != `":` {
		return false
	}
	p.i, p.first = i+len(name)+3, false
	return true
}

// more reports whether another item comes before the end, and goes there.
func (p *scan) more(end byte) bool {
	if p.bad {
		return false
	}
	if p.at() == end {
		p.end(end)
		return false
	}
	if !p.first {
		p.expect(',')
	}
	p.first = false
	return !p.bad
}

func (p *scan) str() string {
	p.expect('"')
	n := strings.IndexByte(p.s[min(p.i, len(p.s)):], '"')
	if p.bad || n < 0 {
		p.bad = true
		return ""
	}
	s := p.s[p.i : p.i+n]
	if !plain(s) {
		return p.escaped()
	}
	p.i += n + 1
	return s
}

// plain reports whether a string is written as it is.
func plain(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(s)
}

// escaped reads a string with escapes, of which the first quote was read.
func (p *scan) escaped() string {
	p.i--
	var s string
	if err := json.Unmarshal(p.raw(), &s); err != nil {
		p.bad = true
	}
	return s
}

func (p *scan) uint() uint64 {
	start := p.i
	var n uint64
	for c := p.at(); '0' <= c && c <= '9'; c = p.at() {
		n = n*10 + uint64(c-'0')
		p.i++
	}
	digits := p.i - start
	if digits == 0 || digits > 18 || digits > 1 && p.s[start] == '0' {
		p.bad = true
	}
	return n
}

func (p *scan) int() int {
	if p.at() == '-' {
		p.i++
		n := p.uint()
		p.bad = p.bad || n == 0
		return -int(n)
	}
	return int(p.uint())
}

func (p *scan) time() time.Time {
	var t time.Time
	start := p.i
	p.str()
	if p.bad || t.UnmarshalJSON(p.b[start:p.i]) != nil {
		p.bad = true
	}
	return t
}

func (p *scan) timePtr() *time.Time {
	t := p.time()
	return &t
}

func (p *scan) isTrue() bool {
	if !strings.HasPrefix(p.s[min(p.i, len(p.s)):], "true") {
		p.bad = true
		return false
	}
	p.i += len("true")
	return true
}

// raw reads any value.
func (p *scan) raw() json.RawMessage {
	start := p.i
	p.skip(0)
	p.first = false
	if p.bad {
		return nil
	}
	return json.RawMessage(p.b[start:p.i:p.i])
}

// items reads an array.
func items[E any](p *scan, read func(*scan, *E)) []E {
	list := make([]E, 0, 1)
	for p.open('['); p.more(']'); {
		var e E
		list = append(list, e)
		read(p, &list[len(list)-1])
	}
	return list
}

// entries reads an object whose names are data.
func entries[V any](p *scan, read func(*scan, *V)) map[string]V {
	m := map[string]V{}
	for p.open('{'); p.more('}'); {
		k := p.str()
		p.expect(':')
		var v V
		read(p, &v)
		m[k] = v
	}
	return m
}

func readString(p *scan, s *string)       { *s = p.str() }
func readInt(p *scan, n *int)             { *n = p.int() }
func readRaw(p *scan, v *json.RawMessage) { *v = p.raw() }

func readRaws(p *scan, v *[]json.RawMessage) { *v = items(p, readRaw) }
