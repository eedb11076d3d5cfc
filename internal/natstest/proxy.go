package natstest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between clients and a node, and can lose what the server says
// while the server hears everything: the way to lose a publish
// acknowledgement.
type Proxy struct {
	listener net.Listener
	target   string
	deaf     atomic.Bool // what the server says is dropped

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool
	wg    sync.WaitGroup
}

// NewProxy starts a proxy in front of an address.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start proxy: %v", err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Deafen drops, from now on, everything the server says on the connections
// there are. Cut ends it.
func (p *Proxy) Deafen() { p.deaf.Store(true) }

// Cut breaks all connections; new ones work as they should.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	p.deaf.Store(false)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, srv) {
			return
		}
		p.wg.Go(func() { p.pipe(srv, client, false) })
		p.wg.Go(func() { p.pipe(client, srv, true) })
	}
}

// keep notes the two ends of a connection; false once the proxy is closed.
func (p *Proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.over {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.over
}

// pipe copies until an end is closed, then closes both.
func (p *Proxy) pipe(dst, src net.Conn, droppable bool) {
	defer func() {
		dst.Close()
		src.Close()
		p.mu.Lock()
		delete(p.conns, src)
		p.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	dropped := false
	for {
		n, err := src.Read(buf)
		if err != nil && err != io.EOF {
			return
		}
		// Once a byte was dropped, nothing that follows makes sense.
		dropped = dropped || droppable && p.deaf.Load()
		if n > 0 && !dropped {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err == io.EOF {
			return
		}
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.over = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
