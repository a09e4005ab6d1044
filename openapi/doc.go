// Package openapi writes the OpenAPI 3.1 document of a caller: the routes that all have, and one
// operation for each tool that this one may use. It is told which those are, and asks nobody.
//
//	base.yaml     what no proto says, and the routes that google.api.http cannot express; written by hand
//	generate/     joins it with what protoc-gen-openapiv3 finds in the protos ─► routes.json, by `make generate`
//	document.go   routes.json and tools ─► a document
//	schema.go     a tool's input_schema where it lies in a document: its references lead there, and to nothing else
//	keywords.go   which keywords a schema keeps, and how
//	weight.go     how large it is to those who follow its references
//	yaml.go       the same document as YAML
//	viewer/       the page for people
//
// What authors of tools write is not trusted: a schema is bounded in size and in what it becomes when its
// references are followed, no reference leads out of it, and no description is HTML.
package openapi
