package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// object is an object of an OpenAPI document, or the document.
type object = map[string]any

// at returns the object at a path of names; nil if it is absent.
func at(o object, names ...string) object {
	for _, name := range names {
		o, _ = o[name].(object)
	}
	return o
}

func list(o object, name string) []any {
	l, _ := o[name].([]any)
	return l
}

// merge adds the HTTP routes of a proto to doc. Fields in doc take precedence.
func merge(doc, proto object) {
	toProtoNames(proto)
	paths := at(doc, "paths")
	for path := range at(proto, "paths") {
		to := dotted.ReplaceAllString(path, "{${1}_$2}")
		if paths[to] == nil {
			paths[to] = object{}
		}
		for method := range at(proto, "paths", path) {
			operation := at(proto, "paths", path, method)
			splitSummary(operation)
			boundPages(operation)
			requireParameters(operation)
			strictBody(operation, at(proto, "components", "schemas"))
			if strings.HasSuffix(path, "/events") {
				operation["responses"] = eventStream()
			}
			maps.Copy(operation, at(paths, to, method))
			at(paths, to)[method] = operation
		}
	}
	for name, schema := range at(proto, "components", "schemas") {
		if !own.MatchString(name) {
			continue // google.api.HttpBody; base.yaml describes those bodies
		}
		at(doc, "components", "schemas")[identifier(name)] = schema
	}
	doc["tags"] = append(list(doc, "tags"), list(proto, "tags")...)
}

// eventStream returns the responses of a method that sends its messages as server-sent events. The proto says only what
// one message is.
func eventStream() object {
	return object{"200": object{
		"description": "Server-sent events, until the client closes the stream. `event` is the kind of change, `id` " +
			"is for Last-Event-ID, `data` is the call or the approval as JSON.",
		"content": object{"text/event-stream": object{"schema": object{"type": "string"}}},
	}}
}

// boundPages gives the size of a page the bounds that its comment has. The gateway rejects any other.
func boundPages(operation object) {
	for _, p := range list(operation, "parameters") {
		p, _ := p.(object)
		text, _ := p["description"].(string)
		if of := at(p, "schema"); p["name"] == "page_size" {
			if most := pageBound.FindStringSubmatch(text); most != nil {
				of["minimum"], of["maximum"] = 0, json.Number(most[1])
			}
		}
	}
}

// requireParameters makes parameters required whose comment says so. The gateway rejects a request without them.
func requireParameters(operation object) {
	for _, p := range list(operation, "parameters") {
		p, _ := p.(object)
		if text, _ := p["description"].(string); requiredText.MatchString(text) {
			p["required"] = true
		}
	}
}

// strictBody says of a request's body what the gateway rejects: unknown fields, and the absence of fields that are
// required by their comment. Messages that are a resource have other required fields in each method.
func strictBody(operation, components object) {
	schema := at(operation, "requestBody", "content", "application/json", "schema")
	if schema == nil {
		return
	}
	refuseUnknown(schema, components, map[string]bool{})
	var required []any
	for name, field := range at(schema, "properties") {
		field, _ := field.(object)
		if text, _ := field["description"].(string); requiredText.MatchString(text) {
			required = append(required, name)
		}
	}
	if required != nil {
		slices.SortFunc(required, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		schema["required"] = required
	}
}

// refuseUnknown closes the objects of a body's schema, and of all to which it refers.
func refuseUnknown(v any, components object, seen map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			refuseUnknown(one, components, seen)
		}
	case object:
		if ref, ok := v["$ref"].(string); ok {
			i := strings.LastIndexByte(ref, '/')
			name := ref[i+1:]
			for of, schema := range components {
				if (of == name || identifier(of) == name) && !seen[of] {
					seen[of] = true
					refuseUnknown(schema, components, seen)
				}
			}
			return
		}
		if v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			refuseUnknown(one, components, seen)
		}
	}
}

// splitSummary makes the first sentence of a comment the summary, and the rest the description.
func splitSummary(operation object) {
	text, _ := operation["summary"].(string)
	summary, rest, more := strings.Cut(text, ". ")
	if !more {
		return
	}
	if description, ok := operation["description"].(string); ok {
		rest += "\n\n" + description
	}
	operation["summary"], operation["description"] = summary+".", rest
}

// addProblems gives every operation the responses of errors.
func addProblems(doc object) {
	if tool := at(doc, template); tool != nil {
		addProblem(tool)
	}
	for path := range at(doc, "paths") {
		for method := range at(doc, "paths", path) {
			addProblem(at(doc, "paths", path, method))
		}
	}
}

// dropUnused deletes the schemas that nothing refers to, such as those of a stream's messages.
func dropUnused(doc object) error {
	all := at(doc, "components", "schemas")
	for {
		text, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("look for references: %w", err)
		}
		before := len(all)
		maps.DeleteFunc(all, func(name string, _ any) bool { return !bytes.Contains(text, []byte(schemas+name+`"`)) })
		if len(all) == before {
			return nil
		}
	}
}

const template = "x-tool-operation"

func addProblem(operation object) {
	for _, statuses := range []string{"4XX", "5XX"} {
		if responses := at(operation, "responses"); responses[statuses] == nil {
			responses[statuses] = object{"$ref": "#/components/responses/Failure"}
		}
	}
}

var (
	own       = regexp.MustCompile(`\b(capgate|openparallax)\.v1\.`)
	dotted    = regexp.MustCompile(`\{(\w+)\.(\w+)\}`) // {tenant.id}
	pageBound = regexp.MustCompile(`^(?:Maximum number of \w+, 0 to|At most) (\d+)\b`)
	// requiredText matches the text of a field that is required everywhere: one with another word behind "Required" is
	// required in some gateways only.
	requiredText = regexp.MustCompile(`\bRequired[.;]`)
	camel        = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	line         = regexp.MustCompile(`([^\n])\n([^\n])`)
)

// snake returns a field's name in the proto: page_size for pageSize.
func snake(name string) string {
	return strings.ToLower(camel.ReplaceAllString(name, "${1}_$2"))
}

const schemas = "#/components/schemas/"

// identifier returns the name of a message's schema, which generators of clients make types of.
func identifier(message string) string {
	return strings.ReplaceAll(own.ReplaceAllString(message, ""), ".", "_")
}

// openStruct allows any property in a google.protobuf.Struct, as the type does. A generated client would have an object
// without properties otherwise.
func openStruct(schema any) {
	if s, ok := schema.(object); ok && s["type"] == "object" && s["properties"] == nil &&
		s["additionalProperties"] == nil {
		s["additionalProperties"] = true
	}
}

// markJSON says of a text which is JSON that it is.
func markJSON(name string, schema any) {
	if s, ok := schema.(object); ok && strings.HasSuffix(name, "_json") && s["type"] == "string" && s["format"] == nil {
		s["contentMediaType"] = "application/json"
	}
}

// toProtoNames changes field names to those of the protos, which the API uses, and adjusts references. Lines of
// comments become paragraphs.
func toProtoNames(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			toProtoNames(e)
		}
	case object:
		if properties := at(v, "properties"); properties != nil {
			spelt := object{}
			for name, schema := range properties {
				openStruct(schema)
				markJSON(snake(name), schema)
				spelt[snake(name)] = schema
			}
			v["properties"] = spelt
			for i, name := range list(v, "required") {
				if name, ok := name.(string); ok {
					list(v, "required")[i] = snake(name)
				}
			}
		}
		if name, ok := v["name"].(string); ok && v["in"] != nil {
			v["name"] = strings.ReplaceAll(snake(name), ".", "_")
		}
		if ref, ok := v["$ref"].(string); ok {
			if name, ok := strings.CutPrefix(ref, schemas); ok {
				v["$ref"] = schemas + identifier(name)
			}
		}
		for _, name := range []string{"summary", "description"} {
			if text, ok := v[name].(string); ok {
				v[name] = line.ReplaceAllString(text, "$1 $2")
			}
		}
		for _, e := range v {
			toProtoNames(e)
		}
	}
}
