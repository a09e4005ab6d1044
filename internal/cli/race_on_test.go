//go:build race

package cli

// raceMemory is how many times as much memory a process takes under the race detector.
const raceMemory = 6
