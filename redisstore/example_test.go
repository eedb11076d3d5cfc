package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/pawlrun/pawl/redisstore"
)

// Example opens the shadow of a HISTORY on a Redis that knows nothing yet.
func Example() {
	ctx := context.Background()
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client, err := redisstore.Connect(ctx, redisstore.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	store, err := redisstore.Open(ctx, client, redisstore.Options{Incarnation: "aB3x"})
	if err != nil {
		log.Fatal(err)
	}
	copies, err := store.Load(ctx, []string{"order-4711"})
	if err != nil {
		log.Fatal(err)
	}
	complete, err := store.Completeness(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(copies[0] == nil, complete)
	// Output: true 0
}
