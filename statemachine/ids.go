package statemachine

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// StartEventID is the id of a run's start, and the wake of what it asks.
// Events and effects are two name spaces: an effect's wake begins with
// "effect:", no event id does.
const StartEventID = "start"

// ResultEventID is the id of the result of an effect.
func ResultEventID(effect string) string { return "result:" + effect }

// FailureEventID is the id of the failure of one try of an effect.
func FailureEventID(effect string, try int) string {
	return "failure:" + effect + ":" + strconv.Itoa(try)
}

// DueEventID is the id of the end of the wait before a try.
func DueEventID(effect string, try int) string {
	return "due:" + effect + ":" + strconv.Itoa(try)
}

// CallbackEventID is the id of what came of a try that was accepted.
func CallbackEventID(effect string, try int) string {
	return "callback:" + effect + ":" + strconv.Itoa(try)
}

// BeatEventID is the id of a sign of life of a try that was accepted.
func BeatEventID(effect string, try int) string {
	return "beat:" + effect + ":" + strconv.Itoa(try)
}

// LapseEventID is the id of the end of the wait for what came of a try; its try
// is the next one, as that of a due time.
func LapseEventID(effect string, try int) string {
	return "lapse:" + effect + ":" + strconv.Itoa(try)
}

// QueueEventID is the id of the turn of an inline effect into a queued one.
func QueueEventID(effect string) string { return "queue:" + effect }

// SignalEventID is the id of a signal, made from the sender's id.
func SignalEventID(id string) string { return "signal:" + id }

// ChildEventID is the id of the end of a child.
func ChildEventID(effect, child string) string { return "child:" + effect + ":" + child }

// CommandEventID is the id of a command, made from the id of the request.
func CommandEventID(id string) string { return "cmd:" + id }

// finishedID is the id of the entry that tells of the end of a run: there is
// one in the life of a run.
const finishedID = "finished"

// EffectWake is the wake of what the result of a queued effect asks inline:
// the effect's own EFFECTS message is what resumes it.
func EffectWake(effect string) string { return "effect:" + effect }

// EffectID names the effect that event cause of a run asked as its index-th.
// It depends on the cause alone, not on how events were folded into records
// and not on who performs it, so a repeat has the same id.
func EffectID(run, cause string, index int) string {
	return digest([]byte(run), []byte(cause), []byte(strconv.Itoa(index)))
}

// Fingerprint identifies what is asked: two effects with one key must have
// one fingerprint.
func Fingerprint(effect string, input []byte) string {
	return digest([]byte(effect), input)
}

// digest is 128 bits of SHA-256 over the parts, each preceded by its length,
// in 22 characters of base64url.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		h.Write([]byte{':'})
		h.Write(p)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}
