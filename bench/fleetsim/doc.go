// Fleetsim lets hundreds of gateways look after a hundred thousand backends, in one
// process and in simulated time, and prints what that costs and how soon all agree.
//
//	go run ./bench/fleetsim --help
//
// The replicas are the gateway's own code (health.Replica), each with all of its state;
// the clock, the network and Redis are simulated:
//
//	clock.go       events in the order of their times     node.go   a replica, as health.Prober drives it
//	redis.go       what health's scripts do, and how long a single thread takes for it
//	story.go       what happens: start, peace, a mass failure, a Redis that restarts empty, replicas that die
//	simulation.go  the backends and what is true of them  tally.go  what replicas do and see
//	report.go      the table
package main
