package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostBytes is how large a file of the repository may be. What is larger was
// built, and not written.
const mostBytes = 512 << 10

// TestNothingBuiltIsKept: a binary that somebody built beside the sources is not
// part of them.
func TestNothingBuiltIsKept(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Log("an export of the sources: nobody knows what is kept")
		return
	}
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("git lists %d files", len(files))
	}
	for _, name := range files {
		if info, err := os.Stat(filepath.Join("../..", name)); err == nil && info.Size() > mostBytes {
			t.Errorf("%s has %d bytes, over %d", name, info.Size(), mostBytes)
		}
	}
}
