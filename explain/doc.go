// Package explain says why a run does not move: from what was seen of it to
// one answer.
//
// Nothing is looked at here. Whoever asks gathers Facts: the run's last record,
// the messages that are to wake it, the claims on its effects, the workers that
// answer. What could not be seen is said in the facts and in the answer, never
// guessed: an answer from NATS alone is right, and says less.
//
// Codes are public and permanent, texts are for people and may change.
package explain
