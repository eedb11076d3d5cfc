//go:build unix && !solaris && !aix

package transitions

import (
	"os"
	"syscall"
)

// lockFile waits for the file's lock; closing the file gives it back.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}
