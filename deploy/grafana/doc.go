// Command grafana writes the dashboards in dashboards/, which Grafana reads as they are:
//
//	go run ./deploy/grafana
//
// Each dashboard is a file here: its rows, panels and queries, one line each. dashboard.go
// turns them into Grafana's JSON and lays them out. A test fails where the JSON is not what
// these files say, and the tests of package deploy execute every query.
package main
