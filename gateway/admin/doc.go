// Package admin serves the JSON routes of the admin API: the state of fleets and backends, drains, and limits
// of tenants. NewServices serves the gRPC services of the admin API with their JSON routes.
//
//	GET  /v1/fleets?page_size=&page_token=   all fleets, by capability; with &capability= one
//	GET  /v1/backends/{addr}                 a backend of any fleet, with its drains
//	POST /v1/backends/{addr}:drain           {"capability": "", "force": false}
//	POST /v1/backends/{addr}:undrain         {"capability": ""}
//	GET  /v1/limits?page_size=&page_token=   usage of limits by recently active tenants; with &tenant= one
//
// Package guard authenticates and authorizes the callers, at the admin API alone.
package admin
