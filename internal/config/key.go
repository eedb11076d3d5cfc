package config

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// EnvPrefix begins the name of every variable that overrides a value.
const EnvPrefix = "PAWL_"

// Key is one value that can be set.
type Key struct {
	Path   string // as in config.yaml
	Env    string // variable that overrides it; empty for what only a file can say
	Secret bool   // it has no key in the file, only the variable
	File   string // of a secret: the path of the key that names a file holding it
	index  []int  // of the field, from Config
}

// Keys returns all keys in the order of the struct.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), "", nil) }

func keysOf(t reflect.Type, path string, index []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		k := Key{Path: join(path, name), index: append(append([]int{}, index...), i)}
		if f.Type.Kind() == reflect.Struct && !leaf(f.Type) {
			keys = append(keys, keysOf(f.Type, k.Path, k.index)...)
			continue
		}
		if f.Type.Kind() != reflect.Map {
			k.Env = EnvName(k.Path)
		}
		if file, ok := f.Tag.Lookup("secret"); ok {
			k.Secret, k.File = true, join(path, file)
		}
		keys = append(keys, k)
	}
	return keys
}

// EnvName is the variable of a path.
func EnvName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Value returns the value of a key as the file would have it.
func (k Key) Value(c *Config) string { return show(reflect.ValueOf(c).Elem().FieldByIndex(k.index)) }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// leaf reports whether values of a type are written as one scalar or list.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64, reflect.Slice:
		return true
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

var durationType = reflect.TypeFor[time.Duration]()
