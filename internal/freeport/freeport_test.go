package freeport

import (
	"net"
	"strconv"
	"testing"
)

// A port that is found can be listened on, and the system does not take it for a
// connection meanwhile.
func TestFind(t *testing.T) {
	for range 50 {
		port, err := Find()
		if err != nil || port < first || port >= last {
			t.Fatalf("Find = %d, %v", port, err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("listen on it: %v", err)
		}
		_ = l.Close()
	}
}
