package pawl_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/natsqueue"
	"github.com/pawlrun/pawl/statemachine"
)

var (
	fanItems = flag.Int("fan.items", 150, "items of a run whose worker is killed again and again")
	fanKills = flag.Int("fan.kills", 1, "… how often")
)

// items is a service that answers each item of a run with a text of 1 KB.
type items struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int // by idempotency key
	keys  map[int]string // by item, the key it was called with
	odd   []string
	total int
}

// itemText is what the service says of an item.
func itemText(item int) string {
	return fmt.Sprintf(`{"item":%d,"text":%q}`, item, strings.Repeat("x", 1000))
}

func newItems(t *testing.T) *items {
	s := &items{calls: map[string]int{}, keys: map[int]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Item int `json:"item,string"`
		}
		b, _ := io.ReadAll(r.Body)
		err := json.Unmarshal(b, &in)
		key := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		s.calls[key]++
		s.total++
		if before := s.keys[in.Item]; err != nil || before != "" && before != key {
			s.odd = append(s.odd, fmt.Sprintf("%s with key %s: %v", b, key, err))
		}
		s.keys[in.Item] = key
		s.mu.Unlock()
		time.Sleep(time.Duration(in.Item*7%5) * time.Millisecond) // so that results come in another order
		_, _ = io.WriteString(w, itemText(in.Item))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *items) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// TestKillWorkerOfManyItems: the worker of a run that does one thing for each of
// many, 50 at once, is killed again and again, and Redis loses everything once; no
// record is large, nothing is called again that was not under way at a kill,
// and the results are in order.
func TestKillWorkerOfManyItems(t *testing.T) {
	t.Parallel()
	const atOnce = 50
	n, began := *fanItems, time.Now()
	patience := time.Minute + time.Duration(n)*50*time.Millisecond
	f, s := realServers(t), newItems(t)
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "effects:\n  bound:\n    item.text: {url: %q}\n", s.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	const wait = 1500 * time.Millisecond
	if _, err := natsqueue.Provision(t.Context(), f.nc, natsqueue.Topology{Effects: append(catalog(t, t.TempDir()).Effects(), "item.text"), AckWait: wait, EffectAckWait: wait}); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, f.env, "--config", path)
	f.start("kitchensink", "many", fmt.Sprintf(`{"steps":[{"fan":[{"do":"item.text","input":{"item":"{item}"}}],"repeat":%d,"limit":%d}]}`, n, atOnce))
	for kill := range *fanKills {
		calls := n * (kill + 1) / (*fanKills + 1)
		eventually(t, patience, fmt.Sprintf("%d calls", calls), func() bool { return s.called() >= calls })
		p.kill()
		if at := f.last("many"); at.Status.Ended() || at.Frames[0].Fan == nil {
			t.Fatalf("kill %d: %s", kill+1, describe(at))
		}
		if kill == *fanKills/2 {
			if err := redis.NewClient(&redis.Options{Addr: f.redis}).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		p = startProcess(t, f.env, "--config", path)
	}
	eventually(t, patience, "the end of the run", func() bool { return f.last("many").Status.Ended() })
	took := time.Since(began)
	end := f.is("many", statemachine.StatusSucceeded, "")
	largest, records, item, most := 0, f.history("many"), 0, 0
	for _, r := range records {
		largest, most = max(largest, len(r.Bytes)), max(most, r.UnderWay())
		for _, b := range r.Adds["results"] {
			item++
			if ref, ok := statemachine.AsBlobRef(b); ok {
				var err error
				if b, err = f.queue.Blobs.Get(t.Context(), "many", ref.Hash); err != nil {
					t.Fatal(err)
				}
			}
			if string(b) != itemText(item) {
				t.Fatalf("result %d is %.40s", item, b)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if item != n || end.Logs["results"].Count != n || len(s.keys) != n || len(s.calls) != n || len(s.odd) > 0 {
		t.Errorf("%d results, %d items called under %d keys; odd: %q", item, len(s.keys), len(s.calls), s.odd)
	}
	if again := s.total - n; largest >= 16<<10 || most > atOnce || again > *fanKills*atOnce {
		t.Errorf("the largest record has %d bytes, %d at once, %d calls again", largest, most, again)
	}
	t.Logf("%d items, %d at once, results of 1 KB: %d kills, %d calls, %d of them again with the same key, %d records, the largest of %d bytes, %d bytes in all, %s",
		n, most, *fanKills, s.total, s.total-n, len(records), largest, sizeOf(records), took.Round(100*time.Millisecond))
}

func sizeOf(records []*statemachine.Stored) (n int) {
	for _, r := range records {
		n += len(r.Bytes)
	}
	return n
}
