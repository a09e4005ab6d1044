//go:build !race

package cli

// raceMemory is the factor by which the race detector increases a process' memory.
const raceMemory = 1
