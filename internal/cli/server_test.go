package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configDir is a home of the nats tool with a context that is selected.
func configDir(t *testing.T, selected string, contexts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "nats", "context"), 0o755); err != nil {
		t.Fatal(err)
	}
	if selected != "" {
		if err := os.WriteFile(filepath.Join(dir, "nats", "context.txt"), []byte(selected+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range contexts {
		if err := os.WriteFile(filepath.Join(dir, "nats", "context", name+".json"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindServer(t *testing.T) {
	t.Parallel()
	dir := configDir(t, "prod", map[string]string{
		"prod":  `{"url":"nats://prod:4222","creds":"~/prod.creds","user":"u","description":"not looked at"}`,
		"stage": `{"url":"nats://stage:4222","token":"t"}`,
		"empty": `{}`,
		"bad":   `{`,
	})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		flag string
		env  map[string]string
		want Server
		err  string
	}{
		{"nothing", "", nil, Server{URL: DefaultURL}, ""},
		{"the flag comes first", "a", map[string]string{"PAWL_NATS_URL": "b", "NATS_URL": "c", "XDG_CONFIG_HOME": dir}, Server{URL: "a", From: "-s"}, ""},
		{"then PAWL_NATS_URL", "", map[string]string{"PAWL_NATS_URL": "b", "NATS_URL": "c", "XDG_CONFIG_HOME": dir}, Server{URL: "b", From: "PAWL_NATS_URL"}, ""},
		{"then NATS_URL", "", map[string]string{"NATS_URL": "c", "XDG_CONFIG_HOME": dir}, Server{URL: "c", From: "NATS_URL"}, ""},
		{"then the context", "", map[string]string{"XDG_CONFIG_HOME": dir, "HOME": "/home/me"}, Server{URL: "nats://prod:4222", From: "context prod", CredsFile: "/home/me/prod.creds", User: "u"}, ""},
		{"that is named", "", map[string]string{"XDG_CONFIG_HOME": dir, "NATS_CONTEXT": "stage"}, Server{URL: "nats://stage:4222", From: "context stage", Token: "t"}, ""},
		{"a context without a URL", "", map[string]string{"XDG_CONFIG_HOME": dir, "NATS_CONTEXT": "empty"}, Server{URL: DefaultURL}, ""},
		{"a context that is damaged", "", map[string]string{"XDG_CONFIG_HOME": dir, "NATS_CONTEXT": "bad"}, Server{}, "nats context bad"},
		{"a context that is not there", "", map[string]string{"XDG_CONFIG_HOME": dir, "NATS_CONTEXT": "none"}, Server{}, "nats context none"},
		{"a context that is a path", "", map[string]string{"XDG_CONFIG_HOME": dir, "NATS_CONTEXT": "../prod"}, Server{}, "no name"},
		{"a home without the tool", "", map[string]string{"HOME": t.TempDir()}, Server{URL: DefaultURL}, ""},
		{"who one is", "a", map[string]string{"PAWL_NATS_CREDS_FILE": "f", "NATS_CREDS": "g", "NATS_USER": "u", "PAWL_NATS_PASSWORD_FILE": password, "PAWL_NATS_TLS_ENABLED": "true"},
			Server{URL: "a", From: "-s", CredsFile: "f", User: "u", Password: "secret", TLS: true}, ""},
		{"a password that is not there", "a", map[string]string{"PAWL_NATS_PASSWORD_FILE": "/none"}, Server{}, "/none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := FindServer(tt.flag, func(name string) string { return tt.env[name] })
			if got != tt.want {
				t.Errorf("FindServer = %+v, want %+v", got, tt.want)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("FindServer = %v, want %q", err, tt.err)
			}
		})
	}
}

func TestShownHidesSecrets(t *testing.T) {
	t.Parallel()
	s := Server{URL: "nats://user:p@ss@a:4222,tls://b:4222"}
	if got, want := s.shown(), "nats://a:4222,tls://b:4222"; got != want {
		t.Errorf("shown = %q, want %q", got, want)
	}
}
