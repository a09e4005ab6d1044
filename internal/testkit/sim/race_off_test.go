//go:build !race

package sim_test

const manySeeds, manyLimits = 60, 200
