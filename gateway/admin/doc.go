// Package admin serves the JSON routes of the admin API: the state of fleets and backends, drains, limits of tenants
// and dead letters.
//
//	GET  /v1/fleets?page_size=&page_token=   all fleets, by capability; with &capability= one
//	GET  /v1/backends/{addr}                 a backend of any fleet, with its drains
//	POST /v1/backends/{addr}:drain           {"capability": "", "force": false}
//	POST /v1/backends/{addr}:undrain         {"capability": ""}
//	GET  /v1/limits?page_size=&page_token=   usage of limits by recently active tenants; with &tenant= one
//	GET  /v1/webhooks/dead?page_size=&page_token=   events that could not be delivered to a webhook
//	POST /v1/webhooks/dead/{id}:retry        {}
//
// Package guard authenticates and authorizes the callers, at the admin API alone.
package admin
