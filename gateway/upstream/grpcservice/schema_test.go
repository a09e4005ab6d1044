package grpcservice_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	"github.com/capgate/capgate/internal/toolschema"
)

// schema is that of the tool Echo, whose arguments have a field of each type.
func schema(t *testing.T) map[string]any {
	t.Helper()
	w := start(t, nil, grpctest.Start(t, grpctest.Options{}).Addr)
	var all map[string]any
	check.Must(t, json.Unmarshal(w.listed(t)["Echo"].Schema, &all))
	return all
}

// TestSchema: each type has the schema of its JSON form.
func TestSchema(t *testing.T) {
	t.Parallel()
	all := schema(t)
	fields, _ := all["properties"].(map[string]any)
	for name, want := range map[string]string{
		"cityName": `{"description":"The name of a city.","type":"string"}`,
		"int32":    `{"maximum":2147483647,"minimum":-2147483648,"type":"integer"}`,
		"int64":    `{"pattern":"^(0|-?[1-9][0-9]*)$","type":["integer","string"]}`,
		"uint64":   `{"minimum":0,"pattern":"^(0|[1-9][0-9]*)$","type":["integer","string"]}`,
		"number":   `{"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}`,
		"bytes":    `{"contentEncoding":"base64","pattern":"^[A-Za-z0-9+/]*={0,2}$","type":"string"}`,
		"flag":     `{"type":"boolean"}`,
		"color":    `{"$ref":"#/$defs/demo.v1.Color"}`,
		"tags":     `{"items":{"type":"string"},"type":"array"}`,
		"children": `{"additionalProperties":{"$ref":"#"},"type":"object"}`,
		"byNumber": `{"additionalProperties":{"type":"string"},"propertyNames":{"pattern":"^(0|-?[1-9][0-9]*)$"},` +
			`"type":"object"}`,
		"time":      `{"format":"date-time","type":"string"}`,
		"struct":    `{"type":"object"}`,
		"value":     `{}`,
		"wrapped":   `{"pattern":"^(0|-?[1-9][0-9]*)$","type":["integer","string"]}`,
		"left":      `{"description":"The first.\nAt most one of these may be set: left, right.","type":"string"}`,
		"maybe":     `{"type":"string"}`,
		"next":      `{"$ref":"#"}`,
		"otherName": `{"type":"string"}`,
	} {
		got, err := plainjson.Marshal(fields[name])
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s; err %+v", name, got, want, err)
		}
	}
	color, err := plainjson.Marshal(all["$defs"])
	if err != nil || string(color) != `{"demo.v1.Color":{"description":"Color is a color.\nCOLOR_RED: As blood.",`+
		`"enum":["COLOR_UNSPECIFIED","COLOR_RED","COLOR_BLUE"],"type":"string"}}` {
		t.Errorf("%s; err %+v", color, err)
	}
	if all["additionalProperties"] != false {
		t.Error("unknown fields are accepted")
	}
}

// TestOutputSchemas: the schema of a tool's results has the fields of the response, and accepts each result.
func TestOutputSchemas(t *testing.T) {
	t.Parallel()
	w := start(t, nil, grpctest.Start(t, grpctest.Options{}).Addr)
	tools := w.listed(t)
	for tool, want := range map[string]string{
		"Fail": `{"properties":{},"type":"object"}`,
		"Count": `{"items":{"properties":{"filler":{"type":"string"},"number":{"maximum":2147483647,"minimum":-2147483648,` +
			`"type":"integer"}},"type":"object"},"type":"array"}`,
	} {
		if got := string(tools[tool].Output); got != want {
			t.Errorf("%s: %s", tool, got)
		}
	}
	var echo struct{ Properties map[string]json.RawMessage }
	check.Must(t, json.Unmarshal(tools["Echo"].Output, &echo))
	for field, want := range map[string]string{
		"int64":   `{"pattern":"^(0|-?[1-9][0-9]*)$","type":"string"}`,
		"uint64":  `{"pattern":"^(0|[1-9][0-9]*)$","type":"string"}`,
		"wrapped": `{"pattern":"^(0|-?[1-9][0-9]*)$","type":"string"}`,
		"next":    `{"$ref":"#"}`,
	} {
		if got := string(echo.Properties[field]); got != want {
			t.Errorf("%s: %s", field, got)
		}
	}
	raw := func(message string) string {
		return `{"message":"` + base64.StdEncoding.EncodeToString([]byte(message)) + `"}`
	}
	for _, c := range []struct{ tool, args string }{
		{"Echo", everything}, {"Echo", `{}`}, {"Echo", `{"number":"NaN","small":"-Infinity","value":null,"struct":{}}`},
		{"Count", `{"to":3}`}, {"Count", `{}`},
		{"Raw", raw("\x40\x07")},                // an enum without a name
		{"Raw", raw("\x82\x01\x00")},            // an Any without a message
		{"Raw", raw("\x82\x01\x05\x0a\x03a/b")}, // of an unknown type
		{"Raw", raw("\xf8\x07\x01")},            // an unknown field
	} {
		schema, err := toolschema.Compile(tools[c.tool].Output)
		check.Must(t, err)
		result := w.result(t, c.tool, c.args)
		if wrong := schema.CheckResult(t.Context(), []byte(result)); wrong != nil {
			t.Errorf("%s %.40s: %v in %s", c.tool, c.args, wrong, result)
		}
	}
}

// TestToolNames: each rule gives other names, and methods with one name become no tool.
func TestToolNames(t *testing.T) {
	t.Parallel()
	methods := []string{"demo.v1.Demo/Echo", "demo.v1.Other/*"}
	for names, want := range map[grpcservice.ToolNames]string{
		grpcservice.ByMethod: "demo.v1.Other/Echo has the tool name Echo, as demo.v1.Demo/Echo has; tool_names: " +
			"service",
		grpcservice.ByService: "",
		grpcservice.ByPackage: "",
	} {
		_, err := grpcservice.Parse(grpctest.Descriptors, methods, names)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %s", names, err, want)
		}
	}
}

// FuzzParse: a descriptor file of any content is read or refused.
func FuzzParse(f *testing.F) {
	f.Add(grpctest.Descriptors)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		definitions, err := grpcservice.Parse(data, []string{demo, "a.S/*"}, grpcservice.ByPackage)
		if (definitions == nil) == (err == nil) {
			t.Errorf("%v, %v", definitions, err)
		}
	})
}

// TestDeepMessages: a message that has itself at a depth of any number of messages has a schema of bounded depth.
func TestDeepMessages(t *testing.T) {
	t.Parallel()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{fileOf(
		func(f *descriptorpb.FileDescriptorProto) {
			const most = 300
			for i := range most {
				of := ".a.M"
				if i < most-1 {
					of = ".a.M" + strings.Repeat("x", i+1)
				}
				f.MessageType[i].Field = append(f.MessageType[i].Field, fieldOf("next", 1,
					descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, of))
				if i < most-1 {
					name := "M" + strings.Repeat("x", i+1)
					f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: &name})
				}
			}
		})}}
	if _, err := grpcservice.Parse(bytesOf(t, set), []string{"a.S/*"}, grpcservice.ByMethod); err != nil {
		t.Error(err)
	}
}
