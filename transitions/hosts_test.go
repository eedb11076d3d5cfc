package transitions

import (
	"net/netip"
	"net/url"
	"testing"
)

func TestAllowListChecksURLs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		allowed []string
		url     string
		want    bool
	}{
		{"nothing is allowed by default", nil, "http://127.0.0.1/", false},
		{"a listed name", []string{"api.example.com"}, "https://api.example.com/x", true},
		{"a listed name in other letters and with a root dot", []string{"api.example.com"}, "https://API.Example.com./x", true},
		{"another name", []string{"api.example.com"}, "https://evil.example.com/", false},
		{"a name that only ends like it", []string{"example.com"}, "https://notexample.com/", false},
		{"a domain", []string{"*.example.com"}, "https://a.b.example.com/", true},
		{"a domain is not its own member", []string{"*.example.com"}, "https://example.com/", false},
		{"a domain's suffix without a dot", []string{"*.example.com"}, "https://badexample.com/", false},
		{"a port that is listed", []string{"api.example.com:8443"}, "https://api.example.com:8443/", true},
		{"a port that is not listed", []string{"api.example.com:8443"}, "https://api.example.com/", false},
		{"the default port counts", []string{"api.example.com:443"}, "https://api.example.com/", true},
		{"an address in a range", []string{"127.0.0.0/8"}, "http://127.8.9.1:80/", true},
		{"an address outside", []string{"127.0.0.0/8"}, "http://169.254.169.254/", false},
		{"a public address is not allowed by being public", []string{"api.example.com"}, "http://8.8.8.8/", false},
		{"IPv6", []string{"::1"}, "http://[::1]:8080/", true},
		{"IPv4 written as IPv6", []string{"127.0.0.1"}, "http://[::ffff:127.0.0.1]/", true},
		{"localhost brings its addresses", []string{"localhost"}, "http://127.0.0.1:1/", true},
		{"a number that some resolvers take for 127.0.0.1", []string{"127.0.0.1"}, "http://2130706433/", false},
		{"another scheme", []string{"localhost"}, "file://localhost/etc/passwd", false},
		{"a user in the URL", []string{"localhost"}, "http://me:secret@localhost/", false},
		{"no host", []string{"localhost"}, "http:///x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := parseAllowList(tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.checkURL(u); (err == nil) != tt.want {
				t.Errorf("checkURL(%s) with %v = %v, want allowed %v", tt.url, tt.allowed, err, tt.want)
			}
		})
	}
}

// A listed name that resolves to the inside of the network is refused when the
// connection is made.
func TestAllowListChecksAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		allowed []string
		address string
		want    bool
	}{
		{"public", []string{"api.example.com"}, "93.184.215.14:443", true},
		{"loopback", []string{"api.example.com"}, "127.0.0.1:443", false},
		{"metadata service", []string{"api.example.com"}, "169.254.169.254:80", false},
		{"private", []string{"api.example.com"}, "10.1.2.3:443", false},
		{"private but listed", []string{"api.example.com", "10.0.0.0/8"}, "10.1.2.3:443", true},
		{"unspecified", []string{"api.example.com"}, "0.0.0.0:80", false},
		{"carrier NAT", []string{"api.example.com"}, "100.64.1.1:80", false},
		{"unique local", []string{"api.example.com"}, "[fd00::1]:80", false},
		{"mapped loopback", []string{"api.example.com"}, "[::ffff:127.0.0.1]:80", false},
		{"translated loopback", []string{"api.example.com"}, "[64:ff9b::7f00:1]:80", false},
		{"link local with a zone", []string{"api.example.com"}, "[fe80::1%eth0]:80", false},
		{"listed with another port", []string{"127.0.0.1:8080"}, "127.0.0.1:9090", false},
		{"localhost", []string{"localhost"}, "[::1]:80", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := parseAllowList(tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.checkDial("tcp", tt.address, nil); (err == nil) != tt.want {
				t.Errorf("checkDial(%s) with %v = %v, want allowed %v", tt.address, tt.allowed, err, tt.want)
			}
		})
	}
}

func TestAllowListRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "*", "*.", "http://api.example.com", "a b", "api.*.com", "10.0.0.0/99"} {
		if _, err := parseAllowList([]string{entry}); err == nil {
			t.Errorf("parseAllowList(%q) took it", entry)
		}
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "224.0.0.1": false, "255.255.255.255": false, "::": false, "172.16.0.1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("public(%s) = %v, want %v", address, got, want)
		}
	}
}
