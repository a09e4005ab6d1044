// Package weather is a capability as its author would write it: a gRPC service of the published capability protocol
// (selu.capability.Capability) with three tools.
//
//	get_current_weather  the weather of one city today
//	get_forecast         the next days of one city; streams one chunk per day
//	export_report        a CSV file for many cities, to be downloaded as an artifact
//
// The weather is computed, not observed: monthly climate normals of each city (normals.csv), interpolated to the date,
// with a variation that depends only on the city and the date. All replicas return the same result for the same query
// on the same day, so they need no network, key or disk.
//
//	weather.go    the service: the choice of the tool, and its errors
//	tools.go      the arguments and results of the tools
//	places.go     the table of cities, and suggestions for an unknown one
//	climate.go    a day's weather from normals and a date
//	artifacts.go  files in memory, limited in number, bytes and age
//	export.go     the CSV report
//	transfer.go   upload and download
//
// It is a demonstration. Do not rely on it at sea.
package weather
