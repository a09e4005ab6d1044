//go:build !race

package gateway_test

// raceDetector is whether it looks on, which takes time and memory.
const raceDetector = false
