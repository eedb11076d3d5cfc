package cli

import "os/user"

// User is who uses this machine.
func (t *Tool) User() string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if v := t.Getenv(name); v != "" {
			return v
		}
	}
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
