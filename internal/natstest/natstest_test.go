package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestThreePlacesReplicas(t *testing.T) {
	t.Parallel()
	c := Three(t)
	js, err := jetstream.New(c.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3}); err != nil {
		t.Fatalf("create stream: %v", err)
	}
	Await(t, "a leader", func() bool { return c.Leader("S") != nil })
}

func TestNodeKeepsItsStreams(t *testing.T) {
	t.Parallel()
	n := One(t)
	nc := n.Conn()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatalf("create stream: %v", err)
	}
	n.Stop()
	n.Start()
	Await(t, "the connection", nc.IsConnected)
	if _, err := js.Stream(t.Context(), "S"); err != nil {
		t.Errorf("stream after a restart: %v", err)
	}
}

func TestProxyDropsAnswersUntilCut(t *testing.T) {
	t.Parallel()
	n := One(t)
	p := NewProxy(t, n.Addr())
	nc := connect(t, p.URL(), nil)
	if _, err := nc.RTT(); err != nil {
		t.Fatalf("through the proxy: %v", err)
	}
	p.Deafen()
	if err := nc.FlushTimeout(100 * time.Millisecond); err == nil {
		t.Fatal("the server was heard through a deaf proxy")
	}
	p.Cut()
	Await(t, "a connection", func() bool { return nc.IsConnected() && nc.FlushTimeout(time.Second) == nil })
}
