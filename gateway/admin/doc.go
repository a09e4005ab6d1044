// Package admin serves the gRPC services of the admin API with their JSON routes, and the API's OpenAPI document.
//
// Each service is a package below this one, which returns a Service. Its proto has everything else: the routes, and the
// least role for each method. Package guard authenticates and authorizes the callers, at the admin API alone.
package admin
