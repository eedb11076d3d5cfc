package transitions

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/pawlrun/pawl/statemachine"
)

// allowList decides where requests may go. It is asked twice: for the URL,
// before anything is sent, and for the address, after the name was resolved.
//
// A host that is an address must be in a listed address or range. A host that
// is a name must be listed, and must then resolve to a public address, or to
// one that is listed as well: so a listed name cannot be turned, by whoever
// answers for it in DNS, into a way to the inside of this network. The name
// "localhost" brings the loopback addresses with it.
type allowList struct {
	names  []hostPort     // of names and of "*.domain"
	ranges []netip.Prefix // an address is a range of one
	ports  []string       // parallel to ranges, "" for any
	any    bool           // the URL comes from the configuration: it is allowed as it is
}

// hostPort is a name with an optional port.
type hostPort struct{ host, port string }

// forbiddenError says that a request may not go where it wants to.
type forbiddenError struct{ host, why string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("host %s is not allowed: %s", e.host, e.why)
}

// flowHost is the flow key of what calls a URL: its host, whose limits are the
// ones that count. It is empty if there is none, or if it is too long to be one.
func flowHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || len(u.Host) > statemachine.MaxID {
		return ""
	}
	return strings.ToValidUTF8(strings.ToLower(u.Host), "")
}

func parseAllowList(entries []string) (*allowList, error) {
	l := new(allowList)
	var faults []error
	for _, entry := range entries {
		if err := l.add(entry); err != nil {
			faults = append(faults, err)
		}
	}
	return l, errors.Join(faults...)
}

func (l *allowList) add(entry string) error {
	if p, err := netip.ParsePrefix(entry); err == nil {
		l.addRange(p.Masked(), "")
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		l.addRange(netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), "")
		return nil
	}
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = entry, ""
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("allowed host %q has no number as its port", entry)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		l.addRange(netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), port)
		return nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	name := strings.TrimPrefix(host, "*.")
	if name == "" || strings.ContainsAny(name, "*/: \t") {
		return fmt.Errorf("allowed host %q is no host name, *.domain, address or range", entry)
	}
	l.names = append(l.names, hostPort{host, port})
	if host == "localhost" {
		l.addRange(netip.MustParsePrefix("127.0.0.0/8"), port)
		l.addRange(netip.MustParsePrefix("::1/128"), port)
	}
	return nil
}

func (l *allowList) addRange(p netip.Prefix, port string) {
	l.ranges = append(l.ranges, p)
	l.ports = append(l.ports, port)
}

// checkURL refuses a URL before anything is sent.
func (l *allowList) checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return &forbiddenError{u.Host, fmt.Sprintf("scheme %q is neither http nor https", u.Scheme)}
	}
	if u.User != nil {
		return &forbiddenError{u.Hostname(), "a URL may not carry a user or a password"}
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" {
		return &forbiddenError{`""`, "the URL names no host"}
	}
	if l.any {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if l.listed(a, port) {
			return nil
		}
	} else if l.named(host, port) {
		return nil
	}
	return &forbiddenError{net.JoinHostPort(host, port), "it is not in the list of allowed hosts"}
}

// checkDial refuses an address after the name was resolved, just before the
// connection is made. It is a [net.Dialer]'s Control.
func (l *allowList) checkDial(_, address string, _ syscall.RawConn) error {
	if l.any {
		return nil
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &forbiddenError{address, "it is no address"}
	}
	_, port, _ := net.SplitHostPort(address)
	if l.listed(ap.Addr(), port) || public(ap.Addr()) {
		return nil
	}
	return &forbiddenError{address, "it resolves to an address that is not public, and that is not in the list of allowed hosts"}
}

func (l *allowList) named(host, port string) bool {
	for _, n := range l.names {
		if n.port != "" && n.port != port {
			continue
		}
		if domain, ok := strings.CutPrefix(n.host, "*"); ok && strings.HasSuffix(host, domain) || n.host == host {
			return true
		}
	}
	return false
}

func (l *allowList) listed(a netip.Addr, port string) bool {
	a = a.Unmap().WithZone("")
	for i, p := range l.ranges {
		if p.Contains(a) && (l.ports[i] == "" || l.ports[i] == port) {
			return true
		}
	}
	return false
}

// public reports whether an address is one of the internet: neither private nor
// special, and none of the ranges that net/netip takes for public but are not
// (carrier NAT, protocol assignments, benchmarks, translated IPv4).
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, inside := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16",
	} {
		if netip.MustParsePrefix(inside).Contains(a) {
			return false
		}
	}
	return true
}
