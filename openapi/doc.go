// Package openapi writes the OpenAPI 3.1 document of a caller: the fixed routes, and one operation for each tool
// that the caller may use. The tools are passed in.
//
//	base.yaml     parts that the protos do not define, and routes that google.api.http cannot express; written by hand
//	admin.yaml    the same for the admin API, whose document has no tools
//	generate/     merges it with the output of protoc-gen-openapiv3 ─► routes.json and admin.json, in `make generate`
//	admin.go      the document of the admin API
//	document.go   routes.json and tools ─► a document
//	name.go       names that generators of clients can make identifiers of
//	schema.go     a tool's input_schema as a component of the document, with references only into itself
//	lift.go       the definitions of a schema as components of their own
//	keywords.go   the keywords that a schema keeps, and their kinds
//	weight.go     the size of a schema with its references resolved
//	yaml.go       the same document as YAML
//
// Schemas and descriptions of tools are untrusted. A schema's size is bounded, also with its references resolved;
// no reference leaves it, and no description contains HTML.
package openapi
