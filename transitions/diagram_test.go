package transitions

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew; commit only what you understand")

// The machines draw themselves as the golden files say. Another drawing of an
// old version is another graph: it needs a new version.
func TestDiagrams(t *testing.T) {
	t.Parallel()
	catalog, err := Catalog(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range catalog.Definitions() {
		path := filepath.Join("testdata", "diagrams", fmt.Sprintf("%s_%d.mmd", d.Name, d.Version))
		if *update {
			if err := os.WriteFile(path, []byte(d.Diagram()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), d.Diagram()); diff != "" {
			t.Errorf("%s is drawn differently (-want +got):\n%s", d.Name, diff)
		}
	}
}
