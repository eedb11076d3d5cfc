package transitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlrun/pawl/statemachine"
)

// Files of the shipped providers, below the folder.
const (
	ledgerFile        = "ledger.jsonl"
	outboxFile        = "outbox.jsonl"
	bookingsFile      = "bookings.jsonl"
	trialFile         = "sites.jsonl"
	cancellationsFile = "cancellations.jsonl"
)

// folder is the one place of the file system that the handlers may touch. A
// name in it is opened through [os.Root], so that neither ".." nor a symbolic
// link leads out.
type folder string

// appended is the result of file.append.
type appended struct {
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// append performs file.append: one line per performed effect, with the key and
// the whole input, to the file that the input names. It looks at nothing that
// is there before: performed twice, an effect leaves two lines with one key,
// which is what makes a doubled effect visible.
func (f folder) append(_ context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
	var in struct {
		File string `json:"file"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, invalid(err)
	}
	if err := checkName(in.File); err != nil {
		return nil, invalid(err)
	}
	if name := strings.ToLower(filepath.Clean(in.File)); name == ledgerFile || name == outboxFile {
		return nil, invalid(fmt.Errorf("file %q belongs to a provider", in.File))
	}
	line, err := json.Marshal(struct {
		Key   string          `json:"key"`
		Input json.RawMessage `json:"input"`
	}{key, input})
	if err != nil {
		return nil, invalid(err)
	}
	file, err := f.openAppend(in.File)
	if err != nil {
		return nil, err
	}
	// One write call: lines of two processes do not mix.
	n, err := file.Write(append(line, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("append to %s: %w", in.File, err)
	}
	return json.Marshal(appended{File: in.File, Bytes: n})
}

// openAppend opens a file for reading and appending, and makes it and its
// folders if they are not there.
func (f folder) openAppend(name string) (*os.File, error) {
	root, err := f.root(true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return nil, outside(name, err)
		}
	}
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, invalid(fmt.Errorf("%s is no regular file", name))
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, outside(name, err)
	}
	return file, nil
}

// read returns at most limit+1 bytes of a file.
func (f folder) read(name string, limit int) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, invalid(err)
	}
	root, err := f.root(false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, statemachine.Terminal("not_found", fmt.Errorf("there is no file %s", name))
	}
	if err != nil {
		return nil, outside(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid(fmt.Errorf("%s is no regular file", name))
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, outside(name, err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(limit)+1))
}

func (f folder) root(create bool) (*os.Root, error) {
	if f == "" {
		return nil, statemachine.Terminal("not_configured", errors.New("this fleet has no folder for files"))
	}
	if create {
		if err := os.MkdirAll(string(f), 0o755); err != nil {
			return nil, fmt.Errorf("make the folder for files: %w", err)
		}
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, fmt.Errorf("open the folder for files: %w", err)
	}
	return root, nil
}

// checkName refuses what does not name a file below the folder.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the input names no file")
	case strings.ContainsRune(name, 0), !filepath.IsLocal(name), filepath.Clean(name) == ".", strings.HasSuffix(name, "/"):
		return fmt.Errorf("file %q is not below the folder for files", name)
	}
	return nil
}

// outside tells a name that leads out of the folder, by a symbolic link, from
// an ordinary failure. [os.Root] has no error value of its own for it.
func outside(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(pe.Err.Error(), "escapes") {
		return invalid(fmt.Errorf("file %q is not below the folder for files", name))
	}
	return err
}
