// Command grafana writes the dashboards in dashboards/, which Grafana can import:
//
//	go run ./deploy/grafana          (at the root of the repository)
//	go run ./deploy/grafana -check   compares them
//
// Each dashboard is a file here, with its rows, panels and queries. dashboard.go lays them out and writes
// Grafana's JSON. A test fails if the JSON does not match these files, and the tests of package deploy execute
// every query.
package main
