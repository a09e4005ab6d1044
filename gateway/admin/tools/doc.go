// Package tools shows operators which tools capabilities have, as
// proto/capgate/v1/catalog_admin.proto has it:
//
//	gRPC  capgate.v1.CatalogAdmin
//	JSON  GET /v1/capabilities, GET /v1/capabilities/ID,
//	      POST /v1/capabilities/ID/tools/TOOL:accept, POST /v1/capabilities/ID:discover
//
// It uses package policy/catalog. Package guard authorizes its callers, at the admin API alone.
package tools
