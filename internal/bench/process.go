package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a process whose CPU time is counted.
type Process struct {
	Name string
	PID  int
}

// ticks is how many units of /proc are a second: USER_HZ, the same on all
// Linux that Go runs on.
const ticks = 100

// cpu is the user and system time of a process so far, in seconds, with that
// of its threads that have ended.
func cpu(pid int) (float64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	// The second field is a name in parentheses, which may hold anything.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("read the CPU time of process %d: %q", pid, b)
	}
	user, err1 := strconv.ParseFloat(string(f[11]), 64)
	system, err2 := strconv.ParseFloat(string(f[12]), 64)
	return (user + system) / ticks, errors.Join(err1, err2)
}

// machineCPU is the time that all processors of the machine were busy so far,
// in seconds; 0 where that is not told.
func machineCPU() float64 {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	busy := 0.0
	for i, f := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq
			n, _ := strconv.ParseFloat(f, 64)
			busy += n
		}
	}
	return busy / ticks
}

// Listener finds the process of this machine that listens at a host and port.
func Listener(address string) (pid int, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("port %q: %w", port, err)
	}
	if !local(host) {
		return 0, fmt.Errorf("%s is not this machine", host)
	}
	inodes, err := listening(uint16(n))
	if err != nil {
		return 0, err
	}
	if len(inodes) == 0 {
		return 0, fmt.Errorf("nobody listens at port %s here", port)
	}
	if pid = owner(inodes); pid == 0 {
		return 0, fmt.Errorf("the process that listens at port %s belongs to another user, or another machine", port)
	}
	return pid, nil
}

// local reports whether a host is this machine.
func local(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(ips, func(ip net.IP) bool {
		return ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
	})
}

// listening lists the inodes of the sockets that listen at a port, as links of
// /proc name them.
func listening(port uint16) (map[string]bool, error) {
	inodes := map[string]bool{}
	const listen = "0A"
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) && name != "/proc/net/tcp" {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			w := strings.Fields(lines.Text())
			if len(w) > 9 && w[3] == listen && strings.HasSuffix(w[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+w[9]+"]"] = true
			}
		}
		_ = f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return inodes, nil
}

// owner is a process that has one of the sockets open; 0 if none is seen.
func owner(inodes map[string]bool) int {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is a good one
	for _, name := range files {
		if to, err := os.Readlink(name); err == nil && inodes[to] {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			return pid
		}
	}
	return 0
}
