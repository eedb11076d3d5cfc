# make prints what there is.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help check test race lint demo model faults crash chaos bench bench-real fuzz ci

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: lint test ## what to run before a commit: lint, test

test: ## all tests; the first run compiles nats-server
	go test ./...

race: ## all tests under the race detector; the first run takes minutes
	go test -race -shuffle=on -parallel 4 ./...

lint: ## gofmt, go mod tidy, vet, staticcheck; changes nothing
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	go run $(STATICCHECK) ./...

demo: ## run the shipped samples on an embedded fleet
	go run ./cmd/worker --demo

model: ## search the protocol in all its settings; takes long and much memory
	go test ./internal/model -model.all -timeout 0 -v

faults: ## 2,000 runs on three nodes, through everything that can go down; takes minutes
	go test . -run TestFleetOnThreeNodes -v -timeout 30m -fleet.runs 2000

crash: ## a worker that dies, is held, or dies with Redis at each point of the protocol; takes minutes
	go test . -run TestCrashPoints -v -timeout 30m -crash.all

DURATION := 5m
SEED := 1
chaos: ## faults on three nodes, one after the other; DURATION=30m SEED=7, figures in chaos-SEED.json
	go test . -run 'TestChaos$$' -v -timeout 0 -chaos.for $(DURATION) -chaos.seed $(SEED) -chaos.json chaos-$(SEED).json

bench: ## benchmarks
	go test -run '^$$' -bench . -benchmem ./...

bench-real: ## measure a fleet on a real nats-server and redis-server; ARGS="--queued --runs 5000"
	scripts/bench-real $(ARGS)

fuzz: ## fuzz the reader of config.yaml for half a minute
	go test ./internal/config -run '^$$' -fuzz FuzzConfig -fuzztime 30s

ci: ## what CI runs, on a clean checkout
	.ci/run
