package transitions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/statemachine"
)

const modelChat statemachine.Effect[prompt, reply] = "model.chat"

// What an agent may use up.
const (
	agentTurns   = 40      // questions to the model
	agentTokens  = 200_000 // unless the input says less
	toolsAtOnce  = 8
	agentAnswer  = 72 * time.Hour // for people to decide
	maxToolText  = 32 << 10       // bytes of a tool's result that the model is shown
	agentWho     = "owner"        // decides, unless the input says otherwise
	maxAgentText = 16 << 10       // bytes of the task, and of the system prompt
)

// agentData is what a run of "agent" is about. The first six fields are its
// input.
type agentData struct {
	statemachine.Meta
	Task     string   `json:"task"`
	System   string   `json:"system,omitempty"`
	Tools    []string `json:"tools,omitempty"`    // that it may use; default: all
	Risky    []string `json:"risky,omitempty"`    // of which a person is asked first, beside those that always are
	Approver string   `json:"approver,omitempty"` // who is asked
	Budget   int      `json:"budget,omitempty"`   // tokens

	Chat   statemachine.Log[message] `json:"chat"` // since the task
	Calls  []toolCall                `json:"calls,omitempty"`
	Tokens int                       `json:"tokens,omitempty"` // that were used
	Answer string                    `json:"answer,omitempty"`
}

// agent lets a model work on a task: the model is asked, what it wants done is
// performed, several effects at once, and it is told what came of it, until it
// has an answer. A person is asked before what is risky is performed. What the
// model answered is recorded, and never asked again.
//
//	think ─▶ done
//	 │ ▲ ▲
//	 │ │ └── act ◀─┐
//	 └─┴───▶ ask ──┘
func agent(tools map[string]Tool) *statemachine.Machine[agentData] {
	names := sortedKeys(tools)
	m := statemachine.New[agentData]("agent", 1)
	m.Check(func(a *agentData) error { return a.checkTools(names) })
	m.Budget("tokens", func(a *agentData) int { return a.Tokens }, agentTokens, "over_budget")
	m.Query("progress", func(a *agentData) any {
		return map[string]any{"messages": a.Chat.Len(), "tokens": a.Tokens, "of_tokens": a.budget(), "wants": a.Calls}
	})
	m.State("think", statemachine.Call(modelChat, func(a *agentData) prompt { return a.prompt(names) }, (*agentData).heard)).
		Visits(agentTurns, "over_budget").
		When((*agentData).finished, "done").
		When((*agentData).overBudget, "over_budget").
		When(func(a *agentData) bool { return a.risky(tools) }, "ask").
		Then("act")
	m.State("ask", statemachine.ApproveOf((*agentData).approval, (*agentData).shown, (*agentData).decided)).
		Within(agentAnswer, "refused").
		When((*agentData).denied, "think").
		Then("act")
	m.State("act", statemachine.EachOf((*agentData).calls, toolsAtOnce, statemachine.ToolNames(names...), (*agentData).call, (*agentData).observed)).
		Then("think")
	m.Succeed("done")
	m.Fail("refused", "approval_expired")
	m.Fail("over_budget", "budget").Because((*agentData).spent)
	return m
}

// Validate says what is wrong with the input.
func (a *agentData) Validate() error {
	var faults []error
	fault := func(format string, v ...any) { faults = append(faults, fmt.Errorf(format, v...)) }
	if a.Task == "" || len(a.Task) > maxAgentText {
		fault("task: a text of 1 to %d bytes is needed, not of %d", maxAgentText, len(a.Task))
	}
	if len(a.System) > maxAgentText {
		fault("system: it has %d bytes, over %d", len(a.System), maxAgentText)
	}
	if a.Budget < 0 || a.Budget > agentTokens {
		fault("budget: 1 to %d tokens are possible, not %d", agentTokens, a.Budget)
	}
	if err := a.approval().Check(); err != nil {
		fault("approver: %w", err)
	}
	if a.Chat.Len() > 0 || a.Calls != nil || a.Tokens != 0 || a.Answer != "" {
		fault("chat, calls, tokens and answer are results: they cannot be given")
	}
	return errors.Join(faults...)
}

func (a *agentData) checkTools(names []string) error {
	for _, of := range [][]string{a.Tools, a.Risky} {
		for _, t := range of {
			if !slices.Contains(names, t) {
				return fmt.Errorf("tools: %q is none of %s", clip(t), strings.Join(names, ", "))
			}
		}
	}
	return nil
}

func (a *agentData) prompt(all []string) prompt {
	tools := a.Tools
	if tools == nil {
		tools = all
	}
	return prompt{System: a.System, Task: a.Task, Chat: a.Chat, Tools: tools}
}

func (a *agentData) heard(r reply) {
	a.Tokens += r.Tokens
	a.Calls = r.Calls
	a.Chat.Append(message{Role: "assistant", Text: r.Text, Calls: r.Calls})
	if len(r.Calls) == 0 {
		a.Answer = r.Text
	}
}

func (a *agentData) finished() bool { return len(a.Calls) == 0 }

func (a *agentData) budget() int { return cmp.Or(a.Budget, agentTokens) }

func (a *agentData) overBudget() bool { return a.Tokens > a.budget() }

func (a *agentData) spent() string {
	if a.overBudget() {
		return fmt.Sprintf("%d tokens were used, of %d", a.Tokens, a.budget())
	}
	return fmt.Sprintf("no answer after %d turns", agentTurns)
}

// risky reports whether a person is asked about the calls.
func (a *agentData) risky(tools map[string]Tool) bool {
	return slices.ContainsFunc(a.Calls, func(c toolCall) bool {
		return c.Fault == "" && (tools[c.Tool].Risky || slices.Contains(a.Risky, c.Tool))
	})
}

func (a *agentData) approval() statemachine.Approval {
	return statemachine.Approval{By: []string{cmp.Or(a.Approver, agentWho)}}
}

func (a *agentData) shown() []toolCall { return a.Calls }

func (a *agentData) decided(d statemachine.Decision) {
	if d.Approved() {
		return
	}
	why := "a person refused this"
	for _, answer := range d.Answers {
		if answer.Reason != "" {
			why += ": " + answer.Reason
		}
	}
	for _, c := range a.Calls {
		a.Chat.Append(message{Role: "tool", CallID: c.ID, Text: why})
	}
	a.Calls = nil
}

func (a *agentData) denied() bool { return a.Calls == nil }

func (a *agentData) calls() []toolCall { return a.Calls }

func (a *agentData) call(c toolCall) (effect string, input json.RawMessage) {
	if c.Fault != "" {
		return "", nil // is given up at once; observed says why
	}
	return c.Tool, c.Input
}

func (a *agentData) observed(c toolCall, r statemachine.Result[json.RawMessage]) {
	text := string(r.Value)
	switch {
	case c.Fault != "":
		text = "error: " + c.Fault
	case !r.OK():
		text = fmt.Sprintf("error: %s: %s", r.Cause.Class, r.Cause.Message)
	case len(text) > maxToolText:
		text = strings.ToValidUTF8(text[:maxToolText], "") + fmt.Sprintf("… (%d bytes)", len(text))
	}
	a.Chat.Append(message{Role: "tool", CallID: c.ID, Text: text})
}
