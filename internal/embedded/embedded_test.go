package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/embedded"
)

// holdDir makes this binary a process that holds a data directory until it is
// killed.
const holdDir = "EMBEDDED_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdDir); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

func options(dir string) embedded.Options {
	return embedded.Options{Dir: dir, NATSListen: "127.0.0.1:0", RedisListen: "127.0.0.1:0", SyncAlways: true}
}

func start(t *testing.T, o embedded.Options) *embedded.Servers {
	t.Helper()
	s, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// store publishes a message to a stream, which is made if it is not there.
func store(ctx context.Context, url, text string, opts ...nats.Option) error {
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}}); err != nil {
		return err
	}
	_, err = js.Publish(ctx, "t", []byte(text))
	return err
}

// stored returns the last message of the stream.
func stored(t *testing.T, url string) string {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Data)
}

func TestRestartKeepsWhatJetStreamHas(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	s := start(t, options(dir))
	if err := store(t.Context(), s.NATSURL(), "kept", nats.InProcessServer(s.InProcess())); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop() // once more changes nothing
	if _, err := net.Dial("tcp", s.RedisAddr()); err == nil {
		t.Error("Redis still listens")
	}
	s = start(t, options(dir))
	if got := stored(t, s.NATSURL()); got != "kept" {
		t.Errorf("stream has %q", got)
	}
}

func TestLeasesOfTheStandInExpire(t *testing.T) {
	t.Parallel()
	s := start(t, options(t.TempDir()))
	rdb := redis.NewClient(&redis.Options{Addr: s.RedisAddr()})
	defer rdb.Close()
	if err := rdb.Set(t.Context(), "lease", "me", 100*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		n, err := rdb.Exists(t.Context(), "lease").Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a key with a TTL of 100 ms is still there")
		}
	}
}

func TestSecondStartIsRefusedAndToldHowToJoin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, options(dir))
	_, err := embedded.Start(t.Context(), options(dir))
	var held *embedded.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("second start: %v, want a *HeldError", err)
	}
	natsAddr := strings.TrimPrefix(s.NATSURL(), "nats://")
	want := fmt.Sprintf("data directory %s is held by process %d since %s (nats %s, redis %s)\n"+
		"to join that fleet: PAWL_NATS_URL=nats://%s PAWL_REDIS_ADDR=%s go run ./cmd/worker",
		dir, os.Getpid(), held.Since.Local().Format(time.TimeOnly), natsAddr, s.RedisAddr(), natsAddr, s.RedisAddr())
	if err.Error() != want {
		t.Errorf("error is\n%s\nwant\n%s", err, want)
	}
	// What it prints is true.
	if err := store(t.Context(), "nats://"+held.NATS, "joined"); err != nil {
		t.Errorf("join: %v", err)
	}
	s.Stop()
	start(t, options(dir))
}

func TestHeldErrorSaysOnlyWhatItKnows(t *testing.T) {
	t.Parallel()
	yesterday := time.Now().Add(-25 * time.Hour)
	for want, e := range map[string]*embedded.HeldError{
		"data directory d is held by another process":                                                                    {Dir: "d"},
		"data directory d is held by process 7 since " + yesterday.Local().Format(time.DateTime) + ", which is starting": {Dir: "d", PID: 7, Since: yesterday},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTakenPortsAreNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	for key, name := range map[string]string{"nats.listen": "PAWL_NATS_LISTEN", "redis.listen": "PAWL_REDIS_LISTEN"} {
		dir := t.TempDir()
		o := options(dir)
		if key == "nats.listen" {
			o.NATSListen = addr
		} else {
			o.RedisListen = addr
		}
		_, err := embedded.Start(t.Context(), o)
		want := fmt.Sprintf("%s: %s is in use by another program: stop that, or set %s (127.0.0.1:0 takes a free port)", key, addr, name)
		if fmt.Sprint(err) != want {
			t.Errorf("error %q, want %q", err, want)
		}
		start(t, options(dir)) // nothing was left behind
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), options(file)); err == nil {
		t.Error("a file is taken as data directory")
	}
	// JetStream's own folder is a file: nats-server says "fatal" and would
	// otherwise never get ready.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nats"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), options(dir)); err == nil || !strings.Contains(err.Error(), "start nats-server in "+dir) {
		t.Errorf("error = %v", err)
	}
}

func TestServerSpeaksToTheLogger(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	o := options(t.TempDir())
	o.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	start(t, o).Stop()
	if !strings.Contains(text.String(), `level=DEBUG msg="nats-server said" text="Server is ready"`) {
		t.Errorf("log:\n%s", text.String())
	}
}

// A process that is killed keeps no lock and loses nothing that was acked.
func TestKilledProcessLetsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "stored\n" {
		t.Fatalf("holder said %q, %v", line, err)
	}
	var held *embedded.HeldError
	if _, err := embedded.Start(t.Context(), options(dir)); !errors.As(err, &held) || held.PID != cmd.Process.Pid {
		t.Fatalf("while it is held: %v, want process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	s := start(t, options(dir))
	if got := stored(t, s.NATSURL()); got != "before the kill" {
		t.Errorf("stream has %q", got)
	}
}

func hold(dir string) {
	s, err := embedded.Start(context.Background(), options(dir))
	if err == nil {
		err = store(context.Background(), s.NATSURL(), "before the kill")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("stored")
	select {}
}
