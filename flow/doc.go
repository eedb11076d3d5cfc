// Package flow is what holds effects up: limits on how many are under way and
// how many begin, effect types and machine states that an operator has paused,
// and keys that a provider has closed until a time.
//
// It has the terms and the rules, and no store. Pauses and closed keys are
// notices, told to the whole fleet and kept in NATS; a Board is what one
// process knows of them. Limits come from the configuration, and are kept by
// permits in Redis.
package flow
