//go:build race

package sim_test

// manySeeds is less under the race detector, which makes a run four times as long; one goroutine runs at a time anyway.
const manySeeds, manyLimits = 20, 20
