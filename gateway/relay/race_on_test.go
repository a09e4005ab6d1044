//go:build race

package relay

// raceDetector is whether it looks on, which takes time and memory.
const raceDetector = true
