//go:build crashpoints

package crash

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// errInjected is what an action error answers.
var errInjected = errors.New("an error at a crash point")

// order is what the environment asks for.
type order struct {
	point, action string
	at            int
	hits          *os.File

	mu    sync.Mutex
	times map[string]int
}

var asked = sync.OnceValue(func() *order {
	o, err := parse(os.Getenv("PAWL_CRASH"))
	if err != nil {
		panic(fmt.Sprintf("PAWL_CRASH: %v", err))
	}
	if path := os.Getenv("PAWL_CRASH_HITS"); path != "" {
		if o.hits, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			panic(fmt.Sprintf("PAWL_CRASH_HITS: %v", err))
		}
	}
	return o
})

// parse reads POINT:ACTION[:N].
func parse(s string) (*order, error) {
	o := &order{at: 1, times: map[string]int{}}
	if s == "" {
		return o, nil
	}
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || !slices.Contains(points, parts[0]) {
		return nil, fmt.Errorf("want POINT:ACTION[:N], with a point of %q, got %q", points, s)
	}
	o.point, o.action = parts[0], parts[1]
	if !slices.Contains([]string{"exit", "stop", "error"}, o.action) {
		return nil, fmt.Errorf("unknown action %q", o.action)
	}
	if len(parts) == 3 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want a number from 1, got %q", parts[2])
		}
		o.at = n
	}
	return o, nil
}

// Point is a point of the code. The error is what is to be made of what was
// just done.
func Point(name string) error { return asked().reached(name) }

func (o *order) reached(name string) error {
	o.mu.Lock()
	o.times[name]++
	n := o.times[name]
	if o.hits != nil && n <= 1000 {
		fmt.Fprintln(o.hits, name)
	}
	o.mu.Unlock()
	if name != o.point || n != o.at {
		return nil
	}
	switch o.action {
	case "exit":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it takes effect
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "error":
		return errInjected
	}
	return nil
}
