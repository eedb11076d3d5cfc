package transitions

import (
	"encoding/json"
	"fmt"
)

// object is the JSON schema of an object whose fields are texts; those that
// end in "?" may be missing.
func object(fields ...string) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for i := 0; i < len(fields); i += 2 {
		name, optional := fields[i], false
		if last := len(name) - 1; name[last] == '?' {
			name, optional = name[:last], true
		}
		properties[name] = map[string]string{"type": "string", "description": fields[i+1]}
		if !optional {
			required = append(required, name)
		}
	}
	b, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
	if err != nil {
		panic(fmt.Sprintf("a schema of texts does not encode: %v", err))
	}
	return b
}

// shippedTools are the effects of this fleet that a model may ask for. What
// leaves the fleet, or costs something, is risky.
func shippedTools() map[string]Tool {
	return map[string]Tool{
		docFetch.Name(): {"Reads a document, from the web or from a file.",
			object("url?", "where it is on the web", "file?", "its name, if it is a file"), false},
		textSummarise.Name(): {"Picks the most telling sentences of a text.", object("text", "the text"), false},
		emailSend.Name(): {"Sends an e-mail.",
			object("to", "the address", "subject", "the subject", "body", "the text"), true},
	}
}

// tools are all effects that a model may ask for: those of this fleet, and those
// that the configuration binds to a service and describes.
func tools(c Config) map[string]Tool {
	all := shippedTools()
	for name, b := range c.Bound {
		delete(all, name) // it is another one
		if b.Tool.Description != "" {
			all[name] = b.Tool
		}
	}
	return all
}
