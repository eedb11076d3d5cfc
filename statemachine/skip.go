package statemachine

import "strings"

// maxDepth is how deep a value may be nested before it is left to
// encoding/json, which has a limit of its own.
const maxDepth = 200

// skip goes to the end of a value and checks that it is JSON without white
// space.
func (p *scan) skip(depth int) {
	if p.bad || depth > maxDepth {
		p.bad = true
		return
	}
	switch c := p.at(); {
	case c == '"':
		p.skipString()
	case c == '{':
		for p.open('{'); p.more('}'); {
			p.skipString()
			p.expect(':')
			p.skip(depth + 1)
		}
	case c == '[':
		for p.open('['); p.more(']'); {
			p.skip(depth + 1)
		}
	case c == '-' || '0' <= c && c <= '9':
		p.skipNumber()
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(p.s[p.i:], word) {
				p.i += len(word)
				return
			}
		}
		p.bad = true
	}
}

func (p *scan) skipString() {
	p.expect('"')
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return
		case c < ' ':
			p.bad = true
			return
		case c == '\\':
			p.skipEscape()
			if p.bad {
				return
			}
		default:
			p.i++
		}
	}
	p.bad = true
}

func (p *scan) skipEscape() {
	p.i++
	switch p.at() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.i++
	case 'u':
		p.i++
		for range 4 {
			c := p.at()
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				p.bad = true
				return
			}
			p.i++
		}
	default:
		p.bad = true
	}
}

func (p *scan) skipNumber() {
	if p.at() == '-' {
		p.i++
	}
	if p.at() == '0' {
		p.i++
	} else {
		p.digits()
	}
	if p.at() == '.' {
		p.i++
		p.digits()
	}
	if c := p.at(); c == 'e' || c == 'E' {
		p.i++
		if c := p.at(); c == '+' || c == '-' {
			p.i++
		}
		p.digits()
	}
}

// digits skips at least one digit.
func (p *scan) digits() {
	start := p.i
	for c := p.at(); '0' <= c && c <= '9'; c = p.at() {
		p.i++
	}
	p.bad = p.bad || p.i == start
}
