package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/natsqueue"
)

// userInfo is where a server tells a user what it may do.
const userInfo = "$SYS.REQ.USER.INFO"

// permissions are lists of subjects.
type permissions struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// rights compares what this user may do in NATS with what a worker needs.
func (x *exam) rights(ctx context.Context) {
	const check = "nats rights"
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	x.ask()
	m, err := x.NATS.RequestWithContext(ctx, userInfo, nil)
	var answer struct {
		Data *struct {
			User        string
			Permissions *struct{ Publish, Subscribe *permissions }
		}
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err == nil && answer.Data == nil {
		err = errors.New("the answer says nothing of a user")
	}
	if err != nil {
		text, _, denied := x.why(err)
		if errors.Is(err, nats.ErrNoResponders) || !denied {
			text = "the server does not tell: " + oneLine(err.Error())
		}
		x.note(Unknown, check, "what this user may do is not known: "+text, "permit it to publish to "+userInfo+", then it is told what it lacks")
		return
	}
	need := natsqueue.WorkerRights(x.Topology.Prefix)
	var lacks []string
	if p := answer.Data.Permissions; p != nil {
		for _, way := range []struct {
			verb string
			need []string
			have *permissions
		}{{"publish to", need.Publish, p.Publish}, {"subscribe to", need.Subscribe, p.Subscribe}} {
			if way.have == nil {
				continue
			}
			for _, subject := range natsqueue.Lacks(way.need, way.have.Allow, way.have.Deny) {
				lacks = append(lacks, way.verb+" "+subject)
			}
		}
	}
	const several = 4
	text, n := lacks, len(lacks)
	if n > several {
		text = append(text[:several:several], fmt.Sprintf("and %d more", n-several))
	}
	var f first
	f.when(n > 0, Fail, "grant them (natsqueue/DESIGN.md, rights of a worker), or examine with the workers' credentials", "a worker with the rights of this user cannot work: it may not %s", strings.Join(text, ", "))
	x.judge(check, f, "%d that a worker needs, and this user has", len(need.Publish)+len(need.Subscribe))
}
