package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/queue"
)

// shards is how many slots of a cluster the keys are spread over, and how many
// indexes there are: a partition's shard is its number modulo shards. A search
// looks at each state in each index, so there are few of them.
const shards = 16

// keys makes the names of all keys; DESIGN.md has the table. All keys of a
// shard have its number as hash tag, and so lie in one slot of a cluster.
// All but one carry the incarnation of HISTORY: under another one everything
// is unknown, without a comparison anywhere.
type keys struct {
	prefix      string
	incarnation string
	shares      []string // by shard: what its keys begin with
}

func newKeys(prefix, incarnation string) (keys, error) {
	switch {
	case prefix == "" || strings.ContainsAny(prefix, "{}*?[]\\ \t\r\n"):
		return keys{}, fmt.Errorf("key prefix %q: want a word without braces, spaces and * ? [ ] \\", prefix)
	case incarnation == "":
		return keys{}, errors.New("incarnation is empty")
	case queue.Token(incarnation) != incarnation:
		return keys{}, fmt.Errorf("incarnation %q: want letters, digits and _ = : @ + -", incarnation)
	}
	k := keys{prefix: prefix, incarnation: incarnation, shares: make([]string, shards)}
	for p := range k.shares {
		k.shares[p] = prefix + ":{" + strconv.Itoa(p) + "}:" + incarnation + ":"
	}
	return k, nil
}

// run is the hash of a run: its record, and the claims on its effects.
func (k keys) run(partition int, token string) string { return k.share(partition) + "run:" + token }

// log is the list of the items of a log that are not sealed yet.
func (k keys) log(partition int, token, log string) string {
	return k.share(partition) + "log:" + token + ":" + queue.Token(log)
}

// index is the sorted set of the index entries of a partition's shard. Its name ends in the
// version of their layout: an index of another one is none, and is made anew.
func (k keys) index(partition int) string { return k.share(partition) + "index2" }

// flowKeys are the keys of what is limited: an effect type, or one of its flow
// keys. All of a type are in one slot, since a permit is of both.
type flowKeys struct{ permits, waiting, pace string }

// flow is the keys of an effect type.
func (k keys) flow(effect string) flowKeys { return k.flowOf(effect, "") }

// flowKey is the keys of one of its flow keys.
func (k keys) flowKey(effect, key string) flowKeys { return k.flowOf(effect, ":key-"+queue.Token(key)) }

func (k keys) flowOf(effect, end string) flowKeys {
	begin := k.prefix + ":{flow-" + effect + "}:" + k.incarnation + ":"
	return flowKeys{begin + "permits" + end, begin + "waiting" + end, begin + "pace" + end}
}

func (k keys) share(partition int) string { return k.shares[partition%shards] }

// current holds the incarnation that was opened last.
func (k keys) current() string { return k.prefix + ":incarnation" }

// all is the pattern of all keys of an incarnation but current.
func (k keys) all(incarnation string) string { return k.prefix + ":{*}:" + incarnation + ":*" }

// Fields of a run's hash beside those of its record.
const (
	claimField = "claim:" // and the effect's id: "<deadline> <owner> <txid> <crashes>"
	logField   = "log:"   // and the log's name: index of the first item in its list
)
