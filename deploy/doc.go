// Package deploy has the files for running capgate: configurations and dashboards of other programs, described in
// README.md. Its Go code is tests, which run those programs with these files.
//
//	process_test.go     programs that end with the tests
//	files.go            files that capgate init --for writes; init_test.go runs them
//	gateways_test.go    real gateways with backends, tenants and a Redis, under load
//	prometheus_test.go  a real Prometheus that scrapes them, with the rules of prometheus/
//	queries_test.go     every query of every panel, rule and alert; each returns data
//	rules_test.go       promtool: alerts fire and resolve
//	kubernetes_test.go  the chart and the Kustomize base, rendered and checked against schemas
//	compose_test.go     the compose file, and its health checks in compose_health_test.go
//	haproxy_test.go     haproxy in front of three gateways, which are replaced by three others
//	selu_test.go        the steps of docs/systems/selu.md, without Docker
//	image_test.go       images built from the Dockerfiles without Docker, and run
//	systemd_test.go     the unit
//
// The tests of tools/release run install/install.sh with a release, install its packages with the scripts of packages/,
// run its images, and evaluate its formula for Homebrew.
//
// The tests need the programs that tools/setup installs; no test is skipped.
package deploy
