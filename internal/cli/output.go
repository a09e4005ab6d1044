package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/restjson"
)

// The formats of --output.
const (
	tableFormat = "table"
	jsonFormat  = "json"
	yamlFormat  = "yaml"
)

// output prints what a command found, in the format of --output.
type output struct {
	stdio
	format string
}

// addFlags adds --output.
func (o *output) addFlags(fs *pflag.FlagSet) {
	o.format = tableFormat
	fs.VarP((*formatValue)(&o.format), "output", "o", "`format` of the output: table, json or yaml")
}

// formatValue is the value of --output.
type formatValue string

func (f *formatValue) String() string { return string(*f) }

func (f *formatValue) Type() string { return "format" }

func (f *formatValue) Set(v string) error {
	if !slices.Contains([]string{tableFormat, jsonFormat, yamlFormat}, v) {
		return fmt.Errorf("want %s, %s or %s", tableFormat, jsonFormat, yamlFormat)
	}
	*f = formatValue(v)
	return nil
}

// completeOutput adds shell completion for --output.
func completeOutput(c *cobra.Command) {
	if c.Flags().Lookup("output") != nil {
		_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // it is registered once
			[]string{tableFormat, jsonFormat, yamlFormat}, cobra.ShellCompDirectiveNoFileComp))
	}
}

// data prints a protobuf message, or a value of encoding/json, as an object. In the format for people, text prints
// it.
func (o *output) data(v any, text func(io.Writer)) error {
	var b bytes.Buffer
	if o.format == tableFormat {
		text(&b)
	} else if err := o.encode(&b, v, "  "); err != nil {
		return err
	}
	_, err := o.out.Write(b.Bytes())
	return err
}

// result prints what a request returned, as data does, unless it failed.
func (o *output) result(v any, err error, text func(io.Writer)) error {
	if err != nil {
		return err
	}
	return o.data(v, text)
}

// record prints one object of a sequence: as a line of JSON, or as a document of YAML.
func (o *output) record(v any, text func(io.Writer)) error {
	var b bytes.Buffer
	if o.format == yamlFormat {
		b.WriteString("---\n")
	}
	if o.format == tableFormat {
		text(&b)
	} else if err := o.encode(&b, v, ""); err != nil {
		return err
	}
	_, err := o.out.Write(b.Bytes())
	return err
}

// encode writes an object as JSON, indented or on one line, or as YAML with the fields in the same order.
func (o *output) encode(b *bytes.Buffer, v any, indent string) error {
	text, err := asJSON(v)
	if err != nil {
		return err
	}
	switch {
	case o.format == yamlFormat:
		text, err = asYAML(text)
		b.Write(text)
		return err
	case indent == "":
		err = json.Compact(b, text) // protojson varies its spaces
	default:
		err = json.Indent(b, text, "", indent)
	}
	b.WriteByte('\n')
	return err
}

// asJSON encodes a message as the gateway's REST API does.
func asJSON(v any) ([]byte, error) {
	if w, ok := v.(whole); ok {
		return restjson.Marshal(w.Message)
	}
	if m, ok := v.(proto.Message); ok {
		return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	}
	return plainjson.Marshal(v)
}

// whole is a message that is printed with the fields that the admin API's JSON always has, also empty ones.
type whole struct{ proto.Message }

// asYAML converts JSON, which is YAML in another style.
func asYAML(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = 0
		for _, c := range n.Content {
			plain(c)
		}
	}
	plain(&doc)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// pages calls list with the token of each page, until there is no next one.
func pages(list func(token string) (next string, err error)) error {
	for token := ""; ; {
		next, err := list(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}

// paged is a response with a page of a list.
type paged interface {
	proto.Message
	GetNextPageToken() string
}

// everyPage returns a response with the objects of all pages of a list. It has no other lists.
func everyPage[Q proto.Message, R paged](c *cobra.Command, list func(context.Context, Q, ...grpc.CallOption) (R, error),
	request Q) (all R, err error) {
	to := func(m proto.Message, field protoreflect.Name, v string) {
		m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(field), protoreflect.ValueOfString(v))
	}
	all = all.ProtoReflect().New().Interface().(R) //nolint:forcetypeassert // New returns the same type
	err = pages(func(token string) (string, error) {
		to(request, "page_token", token)
		one, err := list(c.Context(), request)
		if err != nil {
			return "", err
		}
		proto.Merge(all, one)
		to(all, "next_page_token", "")
		return one.GetNextPageToken(), nil
	})
	return all, err
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colored reports whether text for w may have colors (https://no-color.org).
func colored(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
