package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder reads a YAML tree into the structs. The decoder of the yaml package
// is strict too, but its errors know no paths, and it does not say where the
// values stood: the rules that are checked later could not name a line.
type decoder struct {
	file   string
	faults *faults
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (d *decoder) document(raw []byte, c *Config) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return // an empty file says nothing
	}
	if err != nil {
		d.broken(err)
		return
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		d.faults.unreadable(d.at(&more), "", "a second document in the file: only one is read")
	} else if !errors.Is(err, io.EOF) {
		d.broken(err)
	}
	d.value("", doc.Content[0], reflect.ValueOf(c).Elem())
}

// broken reports a file that is no YAML; the yaml package puts the line into
// the text.
func (d *decoder) broken(err error) {
	o, text := origin{source: d.file}, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		o.line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	d.faults.unreadable(o, "", "not YAML: %s", strings.TrimPrefix(text, "yaml: "))
}

func (d *decoder) at(n *yaml.Node) origin { return origin{d.file, n.Line} }

func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a key without a value is a key that is not given
	}
	d.faults.origins[path] = d.at(n)
	switch {
	case v.Kind() == reflect.Struct && !leaf(v.Type()):
		d.section(path, n, v)
	case v.Kind() == reflect.Map:
		d.entries(path, n, v)
	case v.Kind() == reflect.Slice:
		d.list(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.faults.unreadable(d.at(n), path, "must be a single value, got %s", kind(n))
		return
	}
	if err := set(v, n.Value); err != nil {
		d.faults.unreadable(d.at(n), path, "%s", says(v, n.Value, err))
	}
}

func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.faults.unreadable(d.at(n), path, "must be a list, got %s", kind(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	v.Set(list)
}

func (d *decoder) entries(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.faults.unreadable(d.at(n), path, "must be keys and values, got %s", kind(n))
		return
	}
	m := reflect.MakeMap(v.Type())
	d.pairs(path, n, func(key, value *yaml.Node) {
		entry := reflect.New(v.Type().Elem()).Elem()
		at := fmt.Sprintf("%s[%s]", path, key.Value)
		d.faults.origins[at] = d.at(key)
		d.value(at, value, entry)
		m.SetMapIndex(reflect.ValueOf(key.Value), entry)
	})
	v.Set(m)
}

func (d *decoder) section(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.faults.unreadable(d.at(n), path, "must be keys and values, got %s", kind(n))
		return
	}
	t := v.Type()
	fields := map[string]int{}
	for i := range t.NumField() {
		fields[t.Field(i).Tag.Get("yaml")] = i
	}
	d.pairs(path, n, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		i, ok := fields[key.Value]
		if !ok {
			d.faults.unreadable(d.at(key), at, "unknown key%s", hint(key.Value, path, fields))
			return
		}
		if file, ok := t.Field(i).Tag.Lookup("secret"); ok {
			d.faults.unreadable(d.at(key), at, "a secret is not kept in this file: set %s, or name a file in %s",
				EnvName(at), join(path, file))
			return
		}
		d.value(at, value, v.Field(i))
	})
}

// pairs walks the keys of a mapping and reports those given twice.
func (d *decoder) pairs(path string, n *yaml.Node, f func(key, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.faults.unreadable(d.at(key), path, "a key must be a single word, got %s", kind(key))
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.faults.unreadable(d.at(key), join(path, key.Value), "given twice, first in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		f(key, n.Content[i+1])
	}
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return strconv.Quote(n.Value)
}

// hint names the key that was probably meant.
func hint(got, path string, fields map[string]int) string {
	best, least := "", 3
	for name := range fields {
		if n := distance(got, name); n < least || n == least && best != "" && name < best {
			best, least = name, n
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + join(path, best) + "?)"
}

// distance is the number of letters to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
