package client

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlrun/pawl/api"
	"github.com/pawlrun/pawl/queue"
)

// prefixRE is the grammar of the first token of subjects.
var prefixRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// subjects makes the subjects that producers and services use.
type subjects struct {
	prefix string
	user   string // "" is a caller without a name
}

func (s subjects) api(v api.Verb) string { return api.Subject(s.prefix, s.user, v) }

func (s subjects) start(machine string) string { return s.prefix + ".start." + machine }

// finished is the subject of the completions of a machine; "" is all.
func (s subjects) finished(machine string) string {
	if machine == "" {
		return s.prefix + ".finished.*"
	}
	return s.prefix + ".finished." + machine
}

// progress is the subject of what is told of a run's attempts.
func (s subjects) progress(run string) string { return s.prefix + ".progress." + queue.Token(run) }

func (s subjects) stream(name string) string { return strings.ToUpper(s.prefix) + "_" + name }

func checkMachine(name string) error {
	if !queue.IsName(name) {
		return fmt.Errorf("%q is no name of a machine: %s", name, queue.NameGrammar)
	}
	return nil
}

// checkHeader refuses an id that a header would not carry as it is.
func checkHeader(id string) error {
	if !queue.FitsHeader(id) {
		return errors.New("run id has control characters, or blanks at its ends")
	}
	return nil
}

// The headers that producers write and read.
const (
	headerRun      = "Pawl-Run-Id"
	headerVersion  = "Pawl-Machine-Version"
	headerStartAt  = "Pawl-Start-At"
	headerPriority = "Pawl-Priority"
	headerTenant   = "Pawl-Tenant"
)
