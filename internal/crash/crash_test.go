//go:build crashpoints

package crash

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOrders(t *testing.T) {
	for _, bad := range []string{"x", "turn.loaded", "nowhere:exit", "turn.loaded:jump", "turn.loaded:exit:0", "turn.loaded:exit:x", "a:b:c:d"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	o, err := parse("append.sent:error:2")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hits")
	if o.hits, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	got := []error{o.reached("append.sent"), o.reached("turn.loaded"), o.reached("append.sent"), o.reached("append.sent")}
	if got[0] != nil || got[1] != nil || got[2] == nil || got[3] != nil {
		t.Errorf("the errors are %v, want one at the second time", got)
	}
	if b, _ := os.ReadFile(path); string(b) != "append.sent\nturn.loaded\nappend.sent\nappend.sent\n" {
		t.Errorf("hits are %q", b)
	}
}
