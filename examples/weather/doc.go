// Package weather is a capability as its author would write it: a gRPC service of
// the published capability protocol (selu.capability.Capability) with three tools.
//
//	get_current_weather  the weather of one city today
//	get_forecast         the next days of one city; streams one chunk per day
//	export_report        a CSV file for many cities, to be downloaded as an artifact
//
// The weather is computed, not observed: monthly climate normals of each city
// (normals.csv), interpolated to the date, with a variation that depends on the
// city and the date alone. The same question on the same day has the same answer
// from every replica, so no replica needs a network, a key or a disk.
//
//	weather.go    the service: which tool, and how a failure is told
//	tools.go      what each tool accepts and answers
//	places.go     the table of cities, and near names for one that is not in it
//	climate.go    from normals and a date to a day's weather
//	artifacts.go  files in memory, bounded in number, bytes and time
//	export.go     the CSV report
//	transfer.go   upload and download
//
// It is a demonstration: do not sail by it.
package weather
