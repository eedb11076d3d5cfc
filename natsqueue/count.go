package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Records says how many records HISTORY has of a run, by the stream's leader.
// The broker keeps these numbers in memory: unlike a read it never touches the
// block of the file in which a record lies, which may be cold. It asks once.
func (g *Log) Records(ctx context.Context, run string) (n uint64, err error) {
	subject, stream := g.subj.history(run), g.subj.stream(streamHistory)
	body, _ := json.Marshal(map[string]any{"subjects_filter": subject}) // a string
	answer, err := g.ask(ctx, &nats.Msg{Subject: "$JS.API.STREAM.INFO." + stream, Data: body})
	if err == nil {
		n, err = readCount(answer, subject)
	}
	if err != nil {
		return 0, fmt.Errorf("count records in stream %s: %w", stream, err)
	}
	return n, nil
}

// readCount reads the answer to Records.
func readCount(m *nats.Msg, subject string) (uint64, error) {
	if m == nil {
		return 0, errSilent
	}
	if len(m.Data) == 0 {
		return 0, errNoResponse
	}
	var a struct {
		Error   *apiError `json:"error"`
		Cluster *struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		return 0, final{err}
	case a.Error != nil:
		return 0, a.Error
	case a.Cluster != nil && a.Cluster.Leader == "": // then every replica answers, the late ones, too
		return 0, errNoResponse
	}
	return a.State.Subjects[subject], nil
}
