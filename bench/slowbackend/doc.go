// Slowbackend simulates a fleet of five backends of which one takes three times as long, at 90% of the fleet's
// capacity, and compares rules of picking a backend by the percentiles of calls:
//
//	oracle   the backend that will answer first, by every backend's queue
//	router   the gateway's own router
//	prequal  probes of latency and calls in flight, as in Prequal (NSDI 2024)
//
// The router is the gateway's code; clock, network and backends are simulated.
//
//	go run ./bench/slowbackend --out bench/README.md
package main
