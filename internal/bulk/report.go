package bulk

import (
	"maps"
	"slices"
)

// mostGroups bounds how many reasons, and kinds of changes, are told apart;
// mostExamples how many items of each are named.
const (
	mostGroups   = 100
	mostExamples = 5
	otherGroup   = "others"
)

// Group counts items that are alike.
type Group struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"` // the names of the first few
}

// Report says what a job came to, or would.
type Report struct {
	Selected int               `json:"selected"`           // items that were read
	Changed  int               `json:"changed"`            // or would be, in a plan
	Refused  int               `json:"refused"`            // left as they are
	Changes  map[string]*Group `json:"changes"`            // of Changed, by what is done
	Reasons  map[string]*Group `json:"reasons"`            // of Refused, by why
	Good     int               `json:"succeeded"`          // of Changed, of those that were looked at
	Bad      int               `json:"failed"`             //
	Open     int               `json:"undecided"`          //
	Rest     bool              `json:"rest,omitempty"`     // there may be more: the limit was reached, or it stopped
	Stopped  string            `json:"stopped,omitempty"`  // why it stopped early
	Planned  bool              `json:"planned,omitempty"`  // it is a plan: nothing was changed
	Audit    string            `json:"audit_id,omitempty"` // of the lines in the audit record
}

func newReport() *Report {
	return &Report{Changes: map[string]*Group{}, Reasons: map[string]*Group{}}
}

func (r *Report) changed(what, name string) {
	r.Changed++
	count(r.Changes, what, name)
}

func (r *Report) refused(reason, name string) {
	r.Refused++
	count(r.Reasons, reason, name)
}

func count(groups map[string]*Group, what, name string) {
	g := groups[what]
	if g == nil {
		if len(groups) >= mostGroups {
			what = otherGroup
			g = groups[what]
		}
		if g == nil {
			g = &Group{}
			groups[what] = g
		}
	}
	g.Count++
	if len(g.Examples) < mostExamples {
		g.Examples = append(g.Examples, name)
	}
}

// Sorted are the names of groups, the largest first.
func Sorted(groups map[string]*Group) []string {
	names := slices.Sorted(maps.Keys(groups))
	slices.SortStableFunc(names, func(a, b string) int { return groups[b].Count - groups[a].Count })
	return names
}
