//go:build race

package tables_test

// underRace: the race detector's own memory is many times the program's.
const underRace = true
