//go:build race

package gateway_test

// raceDetector reports whether the race detector is on, which takes time and memory.
const raceDetector = true
