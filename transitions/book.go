package transitions

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// book is a file with one JSON line per key. It stands for a provider that
// honours idempotency keys: whoever writes a key a second time is told what
// the first time was answered, and another entry under the same key is
// refused. Two processes may share the file; each takes the file's lock, reads
// what was added since it last looked, and only then writes.
type book struct {
	dir  folder
	name string

	mu    sync.Mutex
	file  os.FileInfo           // whose lines are known; another file is read anew
	read  int64                 // bytes of it that are known
	lines map[string]bookedLine // by key
}

// bookedLine is what is known of a line.
type bookedLine struct {
	number int
	sum    [sha256.Size]byte // of the entry
}

// bookLine is a line of the file.
type bookLine struct {
	Number int             `json:"n"`
	Key    string          `json:"key"`
	At     time.Time       `json:"at"`
	Entry  json.RawMessage `json:"entry"`
}

// write adds an entry, or finds it, and returns its number. fresh is false if
// it was there.
func (b *book) write(key string, entry any) (number int, fresh bool, err error) {
	encoded, err := json.Marshal(entry)
	if err != nil {
		return 0, false, invalid(err)
	}
	sum := sha256.Sum256(encoded)

	b.mu.Lock()
	defer b.mu.Unlock()
	file, err := b.dir.openAppend(b.name)
	if err != nil {
		return 0, false, err
	}
	defer file.Close() // which gives the lock back
	if err := lockFile(file); err != nil {
		return 0, false, fmt.Errorf("lock %s: %w", b.name, err)
	}
	torn, err := b.catchUp(file)
	if err != nil {
		return 0, false, fmt.Errorf("read %s: %w", b.name, err)
	}
	if l, ok := b.lines[key]; ok {
		if l.sum != sum {
			return 0, false, statemachine.Terminal("key_conflict", fmt.Errorf("key %q stands for another entry of %s", key, b.name))
		}
		return l.number, false, nil
	}
	line, err := json.Marshal(bookLine{Number: len(b.lines) + 1, Key: key, At: time.Now().UTC(), Entry: encoded})
	if err != nil {
		return 0, false, err
	}
	if torn {
		// A crash left half a line: it is not an entry, and it must not spoil
		// the next one.
		line = append([]byte{'\n'}, line...)
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return 0, false, fmt.Errorf("write %s: %w", b.name, err)
	}
	return len(b.lines) + 1, true, nil
}

// catchUp reads the lines that were added since the last look. torn says that
// the last one has no end.
func (b *book) catchUp(file *os.File) (torn bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if b.file == nil || !os.SameFile(b.file, info) || info.Size() < b.read {
		b.read, b.lines = 0, make(map[string]bookedLine)
	}
	b.file = info
	if _, err := file.Seek(b.read, io.SeekStart); err != nil {
		return false, err
	}
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return len(line) > 0, nil
		}
		if err != nil {
			return false, err
		}
		b.read += int64(len(line))
		var l bookLine
		if json.Unmarshal(bytes.TrimSpace(line), &l) == nil && l.Key != "" {
			b.lines[l.Key] = bookedLine{number: l.Number, sum: sha256.Sum256(l.Entry)}
		}
	}
}
