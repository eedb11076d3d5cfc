package queue

import (
	"encoding/json"
	"time"
)

// Progress is what the handler of an effect told of an attempt under way, in
// the order it did. Its fields are permanent.
type Progress struct {
	Run     string            `json:"run"`
	Effect  string            `json:"effect,omitempty"`    // type
	ID      string            `json:"effect_id,omitempty"` // of the effect
	Attempt int               `json:"attempt,omitempty"`   // from 1
	At      time.Time         `json:"at"`
	First   int               `json:"first,omitempty"` // which of the attempt's items is the first here, from 0; those in between are lost
	Items   []json.RawMessage `json:"items"`
	Seq     uint64            `json:"-"` // in its stream; set by who reads
}
