// Package statemachine is what a machine is, what a run is, and how it moves:
// pure, standard library only; time comes in as data.
package statemachine
