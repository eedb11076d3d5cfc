package natsqueue

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/flow"
	"github.com/pawlrun/pawl/queue"
)

// The grammar of names. Effects may have dots, which become "+" in tokens:
// "+" is legal in subjects and consumer names, and no name has one.
var (
	effectRE = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$`)
	opaqueRE = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,128}$`)
	prefixRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// nobody stands in a subject for a name that is missing or is none.
const nobody = "_"

// checkName says what is wrong with the name of a machine, state or signal.
func checkName(what, name string) error {
	if !queue.IsName(name) {
		return fmt.Errorf("%s name %s is not %s", what, quoted(name), queue.NameGrammar)
	}
	return nil
}

// checkEffect says what is wrong with an effect type.
func checkEffect(effect string) error {
	if len(effect) > 64 || !effectRE.MatchString(effect) {
		return fmt.Errorf("effect type %s is not [a-z][a-z0-9_-]* with dots, at most 64", quoted(effect))
	}
	return nil
}

// quoted is a name for an error message, of bounded length.
func quoted(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return strconv.Quote(s)
}

// EffectToken is an effect type as it appears in subjects and in the name of
// its consumer.
func EffectToken(effect string) string { return strings.ReplaceAll(effect, ".", "+") }

// effectOf is the effect type of a token.
func effectOf(token string) string { return strings.ReplaceAll(token, "+", ".") }

// idToken is the id of an effect as a subject token. The ids this fleet makes
// are their own token.
func idToken(id string) string { return queue.Token(id) }

// subjects makes every subject there is, from the prefix.
type subjects struct{ prefix string }

// runPart is the partition and the token of a run, as they end a subject.
func runPart(run string) string {
	token := queue.Token(run)
	return strconv.Itoa(queue.Partition(token)) + "." + token
}

func (s subjects) start(machine string) string { return s.prefix + ".start." + machine }

// line is the subject of a start of a machine that waits in a line; "*" is that
// of any.
func (s subjects) line(l queue.Line, machine string) string {
	return s.prefix + ".line." + string(l.Priority) + "." + strconv.Itoa(l.Class) + "." + machine
}

func (s subjects) signal(run, name string) string {
	return s.prefix + ".signal." + queue.Token(run) + "." + name
}

// result is the subject of what came of an effect that was accepted.
func (s subjects) result(token string) string { return s.prefix + ".result." + token }

func (s subjects) history(run string) string { return s.prefix + ".history." + runPart(run) }

func (s subjects) partition(p int) string {
	return s.prefix + ".history." + strconv.Itoa(p) + ".*"
}

func (s subjects) event(run string) string { return s.prefix + ".event." + runPart(run) }

func (s subjects) effect(effect, run, id string) string {
	return s.prefix + ".effect." + EffectToken(effect) + "." + runPart(run) + "." + idToken(id)
}

// timer is the subject of a schedule, due the one it fires to.
func (s subjects) timer(run, id string, try int) string {
	return s.prefix + ".timer." + alarm(run, id, try)
}
func (s subjects) due(run, id string, try int) string {
	return s.prefix + ".due." + alarm(run, id, try)
}

func alarm(run, id string, try int) string {
	return runPart(run) + "." + idToken(id) + "." + strconv.Itoa(try)
}

// timers are the subjects of all schedules of a partition.
func (s subjects) timers(partition int) string {
	return s.prefix + ".timer." + strconv.Itoa(partition) + ".>"
}

// later is the subject of the schedule of a postponed message, dueLater the
// one it fires to. "later" is no partition, so neither is ever a run's.
func (s subjects) later(id string) string    { return s.prefix + ".timer.later." + id }
func (s subjects) dueLater(id string) string { return s.prefix + ".due.later." + id }

// ledger is the subject of a business key: its hash, since a key may hold
// anything and be of any length.
func (s subjects) ledger(key string) string { return s.prefix + ".ledger." + hashToken(key) }

// ledgerPart is the owner of the blobs of a business key.
func ledgerPart(key string) string { return "ledger." + hashToken(key) }

// hashToken is the token of a text that is only compared.
func hashToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// letter is the subject of a dead letter. What is no machine's name must not
// decide what the letter of it matches.
func (s subjects) letter(kind, machine string) string {
	if !queue.IsName(machine) {
		machine = nobody
	}
	if !queue.IsName(kind) {
		kind = nobody
	}
	return s.prefix + ".dlq." + kind + "." + machine
}

// progress is the subject of what is told of a run's attempts under way.
func (s subjects) progress(run string) string { return s.prefix + ".progress." + queue.Token(run) }

// finished is the subject of the ends of a machine's runs.
func (s subjects) finished(machine string) string {
	if !queue.IsName(machine) {
		machine = nobody
	}
	return s.prefix + ".finished." + machine
}

// audit is the subject of a line of the audit record.
func (s subjects) audit(step string) string { return s.prefix + ".audit." + step }

// letters are the subjects of all letters.
func (s subjects) letters() string { return s.prefix + ".dlq.*.*" }

// signals are the subjects of all signals.
func (s subjects) signals() string { return s.prefix + ".signal.*.*" }

// effects are the subjects of the effects of a type, by its token, and dues
// those of the timers that have fired.
func (s subjects) effects(token string) string { return s.prefix + ".effect." + token + ".*.*.*" }
func (s subjects) dues() string                { return s.prefix + ".due.>" }

// letterIndex is the subject of a letter's entry in the index of all letters
// that ever were, by the hash of its id.
func (s subjects) letterIndex(hash string) string { return s.prefix + ".letter." + hash }

// blob is the subject of a chunk. The owner is the part of a run, of a
// business key, or of a letter: letters outlive the blobs of their run.
func (s subjects) blob(owner, hash string, chunk int) string {
	return s.prefix + ".blob." + owner + "." + hash + "." + strconv.Itoa(chunk)
}

func (s subjects) blobs(owner string) string { return s.prefix + ".blob." + owner + ".>" }

// letterPart is the owner of a letter's blobs, by the hash of its id.
func letterPart(hash string) string { return "dlq." + hash }

func (s subjects) machine(name string, version int) string {
	return s.prefix + ".machine." + name + "." + strconv.Itoa(version)
}

func (s subjects) versions(name string) string { return s.prefix + ".machine." + name + ".*" }

// flow is the subject of the notices about one subject of flow control. A key
// may hold anything, so its hash stands for it.
func (s subjects) flow(of flow.Subject) string {
	switch of.Kind {
	case flow.KindState:
		return s.prefix + ".flow.state." + of.Name + "." + of.Under
	case flow.KindKey:
		return s.prefix + ".flow.key." + EffectToken(of.Name) + "." + hashToken(of.Under)
	}
	return s.prefix + ".flow.effect." + EffectToken(of.Name)
}

// flows are the subjects of all notices, in parts that are read one by one:
// there may be very many closed keys.
func (s subjects) flows() [][]string {
	return [][]string{{s.prefix + ".flow.effect.*", s.prefix + ".flow.state.*.*"}, {s.prefix + ".flow.key.*.*"}}
}

// stream is the name of a stream.
func (s subjects) stream(name string) string {
	return strings.ToUpper(s.prefix) + "_" + name
}

// streamOf is the stream that a subject of this fleet is in, without the
// prefix; "" if it is in none that has messages to be taken.
func (s subjects) streamOf(subject string) string {
	t := s.tokens(subject)
	if len(t) == 0 {
		return ""
	}
	switch t[0] {
	case "start", "line":
		return streamStart
	case "signal", "result":
		return streamSignal
	case "event":
		return streamEvents
	case "effect":
		return streamEffects
	case "timer", "due":
		return streamTimers
	}
	return ""
}

// tokens splits a subject after the prefix; nil if it has another prefix.
func (s subjects) tokens(subject string) []string {
	rest, ok := strings.CutPrefix(subject, s.prefix+".")
	if !ok {
		return nil
	}
	return strings.Split(rest, ".")
}

// checkPrefix says what is wrong with a prefix.
func checkPrefix(prefix string) error {
	if !prefixRE.MatchString(prefix) {
		return fmt.Errorf("prefix %s is not [a-z][a-z0-9_-]{0,31}", quoted(prefix))
	}
	return nil
}
