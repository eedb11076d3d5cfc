package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// varz is what is read of a server's monitoring.
type varz struct {
	Name      string `json:"server_name"`
	JetStream struct {
		Config *struct {
			MaxStore     int64         `json:"max_storage"`
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
		} `json:"config"`
		Stats struct {
			Store         uint64 `json:"storage"`
			ReservedStore uint64 `json:"reserved_storage"`
		} `json:"stats"`
	} `json:"jetstream"`
}

// monitor reads what a client cannot see: above all, when writes are synced.
func (x *exam) monitor(ctx context.Context) {
	switch {
	case x.Embedded:
		x.note(OK, "nats sync", "each write: an embedded fleet's server is told so", "")
		return
	case len(x.Monitor) == 0:
		x.note(Unknown, "nats sync", "a client cannot see it", "check sync_interval in nats-server's configuration, or name its monitoring with --monitor http://host:8222")
		return
	}
	for _, url := range x.Monitor {
		v, err := x.varz(ctx, url)
		if err != nil {
			x.note(Unknown, "nats sync", oneLine(err.Error()), "is monitoring on (http_port: 8222)?")
			continue
		}
		x.server(v)
	}
}

func (x *exam) varz(ctx context.Context, url string) (*varz, error) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/varz", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	var v varz
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&v); err != nil {
		return nil, fmt.Errorf("read %s: %w", req.URL, err)
	}
	return &v, nil
}

// server judges one server's disk.
func (x *exam) server(v *varz) {
	c := v.JetStream.Config
	if c == nil {
		x.note(Warn, "nats sync", "server "+v.Name+" has no JetStream", "")
		return
	}
	var f first
	f.when(!c.SyncAlways, Warn, "sync_interval: always, in the block jetstream of nats-server's configuration",
		"server %s: every %v: what it acknowledged since is lost with the power", v.Name, c.SyncInterval)
	x.judge("nats sync", f, "server %s: each write", v.Name)

	used, limit := float64(max(v.JetStream.Stats.Store, v.JetStream.Stats.ReservedStore)), float64(c.MaxStore)
	if limit <= 0 {
		return
	}
	var room first
	text := fmt.Sprintf("server %s: %.0f %% of %s used or reserved", v.Name, share(used, limit), size(c.MaxStore))
	room.when(share(used, limit) >= 90, Fail, "raise max_file_store, or give the server a larger disk", "%s", text)
	room.when(share(used, limit) >= 70, Warn, "raise max_file_store, or give the server a larger disk", "%s", text)
	x.judge("nats disk", room, "%s", text)
}
