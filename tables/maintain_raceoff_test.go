//go:build !race

package tables_test

const underRace = false
