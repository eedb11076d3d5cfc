package cli

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/config"
)

// Configure has the tool reach NATS as a fleet's configuration says, where the
// command line does not say otherwise.
func (t *Tool) Configure(n config.NATS) { t.config = &n }

// Tolerate has the command go on after a refusal of the server: it is one that
// says what is refused.
func (t *Tool) Tolerate() {
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	t.refused.fatal = nil
}

// Server says which server the tool asks, and as whom.
func (t *Tool) Server() (Server, error) {
	if t.config == nil {
		return FindServer(t.URL, t.Getenv)
	}
	n := t.config
	s, err := FindServer(cmp.Or(t.URL, n.URL), t.Getenv)
	if err != nil {
		return Server{}, err
	}
	if t.URL == "" && n.URL != "" {
		s.From = "nats.url, or PAWL_NATS_URL"
	}
	s.CredsFile, s.NKeyFile = cmp.Or(n.CredsFile, s.CredsFile), cmp.Or(n.NKeyFile, s.NKeyFile)
	s.User, s.Password = cmp.Or(n.Username, s.User), cmp.Or(n.Password.Reveal(), s.Password)
	s.CAFile, s.CertFile, s.KeyFile = cmp.Or(n.TLS.CAFile, s.CAFile), cmp.Or(n.TLS.CertFile, s.CertFile), cmp.Or(n.TLS.KeyFile, s.KeyFile)
	s.TLS = s.TLS || n.TLS.On()
	return s, nil
}
