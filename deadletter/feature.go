package deadletter

import "time"

// Features are what letters may have in common.
func Features() []string {
	return []string{"fingerprint", "kind", "machine", "state", "effect", "class", "build", "tenant", "run", "age"}
}

// Feature is what a letter has of what letters may have in common; "" if it
// has none, or there is no such thing. Now is what its age is counted to.
func (l *Letter) Feature(name string, now time.Time) string {
	switch name {
	case "fingerprint":
		return l.Print
	case "kind":
		return string(l.Kind)
	case "machine":
		return l.Machine
	case "state":
		return l.State
	case "effect":
		return l.Effect
	case "class":
		return l.Class
	case "build":
		return l.Build
	case "tenant":
		return l.Tenant()
	case "run":
		return l.Run
	case "age":
		return age(now.Sub(l.Last))
	}
	return ""
}

// age is how old something is, roughly.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "under 1m"
	case d < time.Hour:
		return "under 1h"
	case d < 24*time.Hour:
		return "under 1d"
	case d < 7*24*time.Hour:
		return "under 7d"
	}
	return "7d and more"
}
