//go:build race

package model

// underRace says that the race detector is on. The searches share nothing, so
// it finds little here and costs a factor of ten: only small ones are run.
const underRace = true
