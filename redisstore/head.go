package redisstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

// runHead is what a run's hash says of its record, in one field:
//
//	<sequence> <live or over> <txid> <rev> <version> <time>
//
// The sequence has 20 digits, so that heads compare as strings; a Lua number
// is exact to 2^53 only. Time is the broker's, and empty if the copy does not
// know it.
type runHead struct {
	seq  uint64
	txid string
	time time.Time
}

func headOf(r *statemachine.Stored) string {
	state := " live "
	if r.Status.Ended() {
		state = " over "
	}
	b := make([]byte, 0, 96)
	seq := strconv.FormatUint(r.Seq, 10)
	b = append(b, "00000000000000000000"[len(seq):]...)
	b = append(b, seq...)
	b = append(b, state...)
	b = append(b, r.Txid...)
	b = append(b, ' ')
	b = strconv.AppendUint(b, r.Rev, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(r.Version), 10)
	b = append(b, ' ')
	b = append(b, formatTime(r.Time)...)
	return string(b)
}

// parseHead reads a head; false if it is none.
func parseHead(text string) (runHead, bool) {
	words := strings.Split(text, " ")
	if len(words) != 6 || len(words[0]) != 20 {
		return runHead{}, false
	}
	seq, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return runHead{}, false
	}
	h := runHead{seq: seq, txid: words[2]}
	// A time that cannot be read is a time that the copy does not know.
	h.time, _ = time.Parse(timeLayout, words[5])
	return h, true
}
