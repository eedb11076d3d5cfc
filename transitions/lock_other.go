//go:build !unix || solaris || aix

package transitions

import "os"

// lockFile does nothing where the standard library offers no lock: there, one
// process at a time may use the shipped providers.
func lockFile(*os.File) error { return nil }
