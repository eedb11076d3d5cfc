package redisstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/storetest"
)

func TestObserveSeesCommandsAndPipelines(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s := open(t, client, Options{})
		var trips atomic.Int32
		Observe(client, func(took time.Duration) {
			if took <= 0 {
				t.Errorf("a round trip took %s", took)
			}
			trips.Add(1)
		})
		put(t, s, storetest.Stored(t, "a", 1))
		saved := trips.Load()
		if _, err := s.Load(t.Context(), []string{"a", "b", "c"}); err != nil {
			t.Fatal(err)
		}
		if n := trips.Load(); saved == 0 || n != saved+1 {
			t.Errorf("%d round trips of a save, then %d of a load of three, want some and 1", saved, n-saved)
		}
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if n := trips.Load(); n != saved+2 {
			t.Errorf("a command was not seen")
		}
	})
}
