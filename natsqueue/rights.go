package natsqueue

import "strings"

// Rights are subjects that a user must be permitted.
type Rights struct{ Publish, Subscribe []string }

// WorkerRights are what a worker cannot work without. DESIGN.md has what else
// it may be permitted, and why.
func WorkerRights(prefix string) Rights {
	s := subjects{prefix}
	r := Rights{Subscribe: []string{prefix + ".flow.>"}}
	for _, what := range []string{"history.*.*", "effect.>", "timer.>", "event.*.*", "finished.*", "dlq.>", "letter.*", "blob.>", "ledger.*", "machine.*.*", "flow.>", "line.*.*.*", "progress.*"} {
		r.Publish = append(r.Publish, prefix+"."+what)
	}
	for _, stream := range []string{streamStart, streamSignal, streamEvents, streamEffects, streamTimers} {
		r.Publish = append(r.Publish, "$JS.API.CONSUMER.INFO."+s.stream(stream)+".*", "$JS.API.CONSUMER.MSG.NEXT."+s.stream(stream)+".*", "$JS.ACK."+s.stream(stream)+".>")
	}
	history := s.stream(streamHistory) // partitions with very many runs are swept by a consumer
	r.Publish = append(r.Publish, "$JS.API.CONSUMER.CREATE."+history+".>", "$JS.API.CONSUMER.MSG.NEXT."+history+".*", "$JS.API.CONSUMER.DELETE."+history+".*")
	for _, stream := range streamNames {
		r.Publish = append(r.Publish, "$JS.API.STREAM.INFO."+s.stream(stream))
	}
	for _, stream := range []string{streamHistory, streamLedger, streamDLQ, streamBlobs, streamMachines, streamFlow, streamTimers} {
		r.Publish = append(r.Publish, "$JS.API.STREAM.MSG.GET."+s.stream(stream), "$JS.API.DIRECT.GET."+s.stream(stream))
	}
	return r
}

// Lacks returns those of the rights that lists of what is allowed and denied
// do not give. Lists that are empty allow everything, and deny nothing.
func Lacks(rights, allow, deny []string) (lacks []string) {
	for _, r := range rights {
		ok := len(allow) == 0
		for _, a := range allow {
			ok = ok || covers(a, r)
		}
		for _, d := range deny {
			ok = ok && !overlap(d, r)
		}
		if !ok {
			lacks = append(lacks, r)
		}
	}
	return lacks
}

// covers reports whether a subject with wildcards stands for all that another
// stands for. A permission for a queue group does not.
func covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, t := range w {
		switch {
		case t == ">":
			return len(n) > i
		case i >= len(n) || n[i] == ">" || t != "*" && t != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}

// overlap reports whether there is a subject that both stand for.
func overlap(one, other string) bool {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == ">" || b[i] == ">":
			return true
		case a[i] != b[i] && a[i] != "*" && b[i] != "*":
			return false
		}
	}
	return len(a) == len(b)
}
