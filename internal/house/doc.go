// Package house keeps the house in order: its tests read the table of floors
// in DESIGN.md and the source of every package, and fail on what the table and
// CONTRIBUTING.md forbid.
package house
