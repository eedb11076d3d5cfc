package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawlrun/pawl/client"
)

// Report is what this service reads of the data of a machine "report".
type Report struct {
	Summary struct {
		Text string `json:"text"`
	} `json:"summary"`
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Connect(natsURL) // such as nats://127.0.0.1:4222
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// The id is one that we find again: started twice, it is the same run.
	started, err := c.Start(ctx, "report", map[string]any{
		"source":    map[string]any{"text": "The pump ran without a stop. Its flow was 418 cubic metres."},
		"to":        "customer-17@example.com",
		"sentences": 1,
	}, client.StartOptions{ID: "report-4412"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(started.ID, started.Outcome)

	report, err := client.Result[Report](ctx, c, started.ID)
	var failed *client.RunError
	switch {
	case errors.As(err, &failed): // it failed, was cancelled, or is parked
		log.Fatalf("no report: %v", failed)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(report.Summary.Text)

	// What a machine does not take is refused, with the cause.
	_, err = c.Start(ctx, "report", map[string]any{"to": 5}, client.StartOptions{})
	fmt.Println(errors.Is(err, client.ErrRefused))

	// Output:
	// report-4412 created
	// The pump ran without a stop.
	// true
}
