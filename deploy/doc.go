// Package deploy is what it takes to run capgate: configurations and dashboards of other
// programs, which README.md describes. The Go in it is the tests, which run those programs
// with what is here.
//
//	process_test.go     a program that ends with the tests
//	gateways_test.go    real gateways with backends, tenants and a Redis, under load
//	prometheus_test.go  a real Prometheus that scrapes them, with the rules of prometheus/
//	queries_test.go     every query of every panel, rule and alert
//	rules_test.go       promtool: alerts fire, and end
//	kubernetes_test.go  the chart and the Kustomize base, rendered and checked against schemas
//	compose_test.go     the compose file, and haproxy before three gateways, one of which is replaced
//	image_test.go       what the Dockerfiles say, carried out without Docker, and run
//	systemd_test.go     the unit
//
// The tests need what tools/setup installs; none is skipped.
package deploy
