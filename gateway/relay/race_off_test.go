//go:build !race

package relay

// raceDetector reports whether the race detector is on, which takes time and memory.
const raceDetector = false
