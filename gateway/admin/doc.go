// Package admin serves the gRPC services of the admin API with their JSON routes, and the OpenAPI document of the API.
//
// Each service has a package below this one, which returns a Service. Its proto defines the rest: the routes, and the
// minimum role for each method. Package guard authenticates and authorizes callers; it is used by the admin API alone.
package admin
