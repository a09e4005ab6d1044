// Fleetsim simulates hundreds of gateways with a hundred thousand backends, in one process and in simulated time. It
// prints what the health checks cost and how long the replicas take to agree.
//
//	go run ./bench/fleetsim --help
//
// The replicas run the gateway's own code (health.Replica) with all of its state. The clock, the network and Redis
// are simulated:
//
//	clock.go       events in the order of their times
//	node.go        one replica, driven as health.Prober drives it
//	redis.go       the scripts of health, and their processing times on a single thread
//	scenario.go    start, steady state, a mass failure, a Redis that restarts empty, and replicas that die
//	simulation.go  the backends and their state
//	tally.go       counts of probes and transitions
//	report.go      the table
//
// With --server, it measures a real redis-server instead: features.go lists the features that share state in Redis,
// server.go measures them, and failure.go measures a mass failure.
package main
