package model

import "time"

// edge leads to a state. A fault is a step completion must not need.
type edge[S comparable] struct {
	to    S
	step  Step
	fault bool
}

// system is what a search explores.
type system[S comparable] interface {
	initial() S
	successors(*S) []edge[S]
	canonical(*S)
	verdict(*S) Property
	complete(*S) bool
}

// Result is the outcome of one search.
type Result struct {
	Name    string
	States  int           // distinct states met
	Whole   bool          // every reachable state was met
	Ends    int           // complete states; 0 if completion was not checked
	Elapsed time.Duration //
	Found   Property      // the first violation, or None
	Trace   []string      // the shortest way to it
}

// Verdict says in words what the search found. A search cut by the limit
// says so.
func (r Result) Verdict() string {
	switch {
	case r.Found != None:
		return "BREAKS " + r.Found.String()
	case !r.Whole:
		return "holds as far as searched (limit)"
	case r.Ends == 0:
		return "holds, completion not checked"
	}
	return "holds"
}

// Options bound a search.
type Options struct {
	Limit      int      // states at most; 0 for no limit
	Until      Property // stop at the first state that violates this; None: at any violation
	Completion bool     // check Stuck, in a search that was not cut
}

// Check searches a setting breadth first.
func Check(set Setting, opt Options) Result {
	r := explore(newModel(set), opt)
	r.Name = set.Name
	return r
}

// explorer is a search under way.
type explorer[S comparable] struct {
	sys   system[S]
	opt   Options
	seen  *table[S]
	from  column // the state each was first met from
	first column // index of each state's first edge in heads; Completion only
	heads column // where the edges without fault lead
}

// explore searches a system.
func explore[S comparable](sys system[S], opt Options) Result {
	began := time.Now()
	x := &explorer[S]{sys: sys, opt: opt, seen: newTable[S]()}
	r := x.search()
	if r.Found == None && r.Whole && opt.Completion {
		x.checkCompletion(&r)
	}
	r.States = x.seen.len()
	r.Elapsed = time.Since(began)
	return r
}

func (x *explorer[S]) search() Result {
	init := x.sys.initial()
	x.sys.canonical(&init)
	x.seen.put(&init)
	x.from.add(0)
	for at := 0; at < x.seen.len(); at++ {
		s := x.seen.at(at)
		if x.opt.Completion {
			x.first.add(uint32(x.heads.len()))
		}
		if found := x.sys.verdict(&s); found != None {
			if x.opt.Until == None || x.opt.Until == found {
				return Result{Found: found, Trace: x.trace(at)}
			}
			continue
		}
		if x.opt.Limit > 0 && x.seen.len() > x.opt.Limit {
			return Result{}
		}
		edges := x.sys.successors(&s)
		for e := range edges {
			x.sys.canonical(&edges[e].to)
			to, isNew := x.seen.put(&edges[e].to)
			if isNew {
				x.from.add(uint32(at))
			}
			if x.opt.Completion && !edges[e].fault {
				x.heads.add(uint32(to))
			}
		}
	}
	return Result{Whole: true}
}

// checkCompletion marks, backwards from the complete states, every state from
// which one can be reached without a fault.
func (x *explorer[S]) checkCompletion(r *Result) {
	n := x.seen.len()
	done := make([]bool, n)
	var todo []uint32
	for i := range n {
		s := x.seen.at(i)
		if x.sys.complete(&s) {
			done[i] = true
			todo = append(todo, uint32(i))
		}
	}
	r.Ends = len(todo)
	begin, tails := x.reversed()
	for len(todo) > 0 {
		to := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, at := range tails[begin[to]:begin[to+1]] {
			if !done[at] {
				done[at] = true
				todo = append(todo, at)
			}
		}
	}
	for i := range n {
		if !done[i] {
			r.Found, r.Trace = Stuck, x.trace(i)
			return
		}
	}
}

// reversed returns the edges by their heads: those into state i come from
// tails[begin[i]:begin[i+1]].
func (x *explorer[S]) reversed() (begin []uint64, tails []uint32) {
	n, edges := x.seen.len(), x.heads.len()
	begin = make([]uint64, n+2)
	for e := range edges {
		begin[x.heads.at(e)+2]++
	}
	for i := range n {
		begin[i+2] += begin[i+1]
	}
	tails = make([]uint32, edges)
	for at, e := 0, 0; at < n; at++ {
		for ; e < edges && (at+1 == n || e < int(x.first.at(at+1))); e++ {
			to := x.heads.at(e)
			tails[begin[to+1]] = uint32(at)
			begin[to+1]++
		}
	}
	return begin, tails
}

// trace returns the steps to a state. Workers are followed by their names at
// the start, though the search takes them for interchangeable.
func (x *explorer[S]) trace(at int) []string {
	var path []int
	for at != 0 {
		path = append(path, at)
		at = int(x.from.at(at))
	}
	var steps []string
	s := x.sys.initial()
	for i := len(path) - 1; i >= 0; i-- {
		want := x.seen.at(path[i])
		for _, e := range x.sys.successors(&s) {
			to := e.to
			x.sys.canonical(&to)
			if to == want {
				steps = append(steps, e.step.String())
				s = e.to
				break
			}
		}
	}
	return steps
}
