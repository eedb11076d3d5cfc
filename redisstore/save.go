package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/queue"
	"github.com/pawlrun/pawl/worker"
)

// timeLayout has one width, so that times sort as strings.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Save writes records, each only if newer, and in the same step claims and
// releases effects. Records of one run are taken in the order given. A claim
// is granted to the same owner again only if it was granted for the same
// record, so that a Save whose answer was lost can be repeated. After an error
// any part of the batch may have been saved.
func (s *Store) Save(ctx context.Context, saves []worker.Save) ([]worker.Saved, error) {
	items := make([]item, len(saves))
	for i := range saves {
		var err error
		if items[i], err = s.saveItem(&saves[i]); err != nil {
			return nil, fmt.Errorf("save run: %w", err)
		}
	}
	answers, err := s.run(ctx, scriptSave, []any{s.opts.EndedTTL.Milliseconds()}, items)
	if err != nil {
		return nil, fmt.Errorf("save %d runs: %w", len(saves), err)
	}
	saved := make([]worker.Saved, len(saves))
	for i, a := range answers {
		if saved[i], err = parseSaved(a, len(saves[i].Claim)); err != nil {
			return nil, fmt.Errorf("save run %s: %w", saves[i].Stored.Run, err)
		}
	}
	return saved, nil
}

// saveItem lays a save out as save.lua reads it.
func (s *Store) saveItem(sv *worker.Save) (item, error) {
	if sv.Stored == nil || sv.Stored.Record == nil || sv.Stored.Seq == 0 || len(sv.Stored.Bytes) == 0 {
		return item{}, errors.New("no stored record")
	}
	r := sv.Stored
	at, err := locate(r.Run)
	if err != nil {
		return item{}, err
	}
	if len(sv.Claim) > 0 && sv.Lease < time.Millisecond {
		return item{}, fmt.Errorf("%s: claims without a lease", r.Run)
	}
	it := item{
		partition: at.partition,
		keys:      []string{s.keys.run(at.partition, at.token), s.keys.index(at.partition)},
		size:      len(r.Bytes) + 1024,
	}
	logs := logsOf(sv)
	it.args = make([]any, 0, 6+len(sv.Release)+len(sv.Claim)+4*len(logs))
	it.args = append(it.args, headOf(r), placeOf(r.Record), at.token, indexLines(r.Record), r.Bytes, more(sv, len(logs)))
	for _, id := range sv.Release {
		it.args = append(it.args, claimField+id)
	}
	for _, id := range sv.Claim {
		it.args = append(it.args, claimField+id)
	}
	for _, name := range logs {
		it.args = append(it.args, logField+name)
		it.keys = append(it.keys, s.keys.log(at.partition, at.token, name))
	}
	for _, name := range logs {
		ref, earlier, adds := r.Logs[name], sv.Earlier[name], r.Adds[name]
		it.args = append(it.args, ref.Count, ref.Sealed, len(earlier)+len(adds))
		for _, items := range [][]json.RawMessage{earlier, adds} {
			for _, a := range items {
				it.args = append(it.args, []byte(a))
				it.size += len(a)
			}
		}
	}
	return it, nil
}

// more says what of a save follows its record; most have nothing.
func more(sv *worker.Save, logs int) string {
	if len(sv.Release)+len(sv.Claim)+logs == 0 {
		return ""
	}
	b := make([]byte, 0, 96)
	b = append(b, ownerWord(sv.Owner)...)
	b = append(b, sv.Stored.Txid...)
	for _, n := range []int64{sv.Lease.Milliseconds(), int64(len(sv.Release)), int64(len(sv.Claim)), int64(logs)} {
		b = append(b, ' ')
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// logsOf names the logs that a save changes in Redis: those it adds to or that
// have a sealed part; of an ended run all, since they expire with it.
func logsOf(sv *worker.Save) []string {
	r := sv.Stored.Record
	if len(r.Logs) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(r.Logs))
	if r.Status.Ended() {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return len(r.Adds[name])+len(sv.Earlier[name]) == 0 && r.Logs[name].Sealed == 0
	})
}

func parseSaved(answer any, claims int) (worker.Saved, error) {
	text, _ := answer.(string)
	switch {
	case strings.HasPrefix(text, "n"):
		seq, err := strconv.ParseUint(text[1:], 10, 64)
		if err != nil {
			return worker.Saved{}, fmt.Errorf("newer sequence: %w", err)
		}
		return worker.Saved{Newer: seq, Granted: make([]bool, claims)}, nil
	case strings.HasPrefix(text, "g") && len(text) == 1+claims:
		saved := worker.Saved{Granted: make([]bool, claims)}
		for i := range saved.Granted {
			saved.Granted[i] = text[1+i] == '1'
		}
		return saved, nil
	}
	return worker.Saved{}, fmt.Errorf("script %s answered %q for %d claims", scriptSave, answer, claims)
}

// ownerWord is an owner as claims begin with it after their deadline: one
// word and a space, so that no owner begins like another.
func ownerWord(owner string) string { return queue.Token(owner) + " " }

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
