// Package client is for those who start runs and want to know what becomes of
// them: producers, and services in front of a fleet.
//
//	c, err := client.Connect("nats://127.0.0.1:4222")
//	…
//	defer c.Close()
//	_, err = c.Start(ctx, "report", input, client.StartOptions{ID: "report-4412"})
//	…
//	report, err := client.Result[Report](ctx, c, "report-4412")
//
// It asks the fleet's control API, which any worker answers, and makes a
// request again, with the same id, while none does. What a call may come back
// with is in the sentinels Err…; the words of the fleet are in Error. Only
// Publish and Finished need no worker: they go to the broker's streams.
//
// Everything it does is the public wire of docs/wire.md and can be done with
// any NATS client.
package client
