package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl/client"
)

// Who follows the progress of a run sees what handlers told, from before the run
// was started on, and goes on after the last that it saw.
func TestProgressOfARun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const id = "tells"
	events, err := c.Progress(ctx, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	summarise := func(text string) map[string]any {
		return map[string]any{"do": "text.summarise", "input": map[string]any{"text": text}}
	}
	if _, err := c.Start(ctx, "kitchensink", map[string]any{"steps": []any{summarise("One. Two."), summarise("Three.")}}, client.StartOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
	var first *client.Progress
	for p, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if p.Run != id || p.Effect != "text.summarise" || p.EffectID == "" || p.Attempt != 1 || len(p.Items) != 2 || string(p.Items[1]) != `"Two. "` || p.Sequence == 0 {
			t.Errorf("told %+v", p)
		}
		first = p
		break
	}
	again, err := c.Progress(ctx, id, first.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range again {
		if err != nil || string(p.Items[0]) != `"Three. "` || p.First != 0 || p.EffectID == first.EffectID {
			t.Errorf("after %d comes %+v, %v", first.Sequence, p, err)
		}
		break
	}
	if _, err := c.Progress(ctx, "", 0); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("of no run: %v", err)
	}
}
