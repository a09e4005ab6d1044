//go:build !race

package sim_test

const manySeeds = 200
