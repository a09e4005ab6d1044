//go:build race

package sim_test

// manySeeds is lower under the race detector, which makes a run four times as long. Only one goroutine runs at a time
// anyway.
const manySeeds, manyLimits = 20, 20
