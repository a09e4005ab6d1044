// Package admin is the operators' JSON API of a gateway, over HTTP: which fleets there
// are and how their backends stand, and that a backend be drained.
//
//	GET  /v1/fleets?page_size=&page_token=   all fleets, by capability; with &capability= one
//	GET  /v1/backends/{addr}                 a backend of any fleet, and what is left of a drain
//	POST /v1/backends/{addr}:drain           {"capability": "", "force": false}
//	POST /v1/backends/{addr}:undrain         {"capability": ""}
//	GET  /v1/limits?page_size=&page_token=   how much of their limits tenants use that called of late; with &tenant= one
//	GET  /v1/webhooks/dead?page_size=&page_token=   events that a webhook could not be told of
//	POST /v1/webhooks/dead/{id}:retry        {}
//
// It authenticates nobody: it is for the operators' port alone.
package admin
