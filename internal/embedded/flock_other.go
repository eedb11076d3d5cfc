//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import (
	"errors"
	"os"
)

// flock refuses: two servers in one directory would destroy it.
func flock(*os.File) error {
	return errors.New("this system has no flock: embedded servers need it, use real ones")
}

func unlock(*os.File) error { return nil }
