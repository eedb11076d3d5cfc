package transitions

import (
	"embed"
	"encoding/json"
)

//go:embed samples/*.json
var samples embed.FS

// Sample returns an input with which a shipped machine can be tried out.
func Sample(machine string) (json.RawMessage, bool) {
	b, err := samples.ReadFile("samples/" + machine + ".json")
	return b, err == nil
}
