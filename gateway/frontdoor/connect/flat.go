package connect

import (
	"bytes"
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// flat is the schema of a message whose fields are texts, bytes and booleans. Such messages, which calls of tools are,
// are converted between JSON and protobuf without a message in memory. protojson reads unusual texts and reports
// errors. A nil flat converts nothing.
type flat struct{ fields []flatField }

type flatField struct {
	names  [2]string // in JSON
	number protowire.Number
	wire   protowire.Type
	kind   protoreflect.Kind
}

const (
	maxFlat    = 8  // fields of a message
	flatValues = 32 // JSON values and names of a text, so few that they are not charged
)

// flatsOf returns the flat messages of packages, by name.
func flatsOf(packages ...protoreflect.FullName) map[protoreflect.FullName]*flat {
	all := map[protoreflect.FullName]*flat{}
	for _, name := range packages {
		protoregistry.GlobalFiles.RangeFilesByPackage(name, func(file protoreflect.FileDescriptor) bool {
			for i := range file.Messages().Len() {
				d := file.Messages().Get(i)
				if f := flatOf(d); f != nil {
					all[d.FullName()] = f
				}
			}
			return true
		})
	}
	return all
}

// flatOf returns the schema of a message, or nil if it is not flat.
func flatOf(d protoreflect.MessageDescriptor) *flat {
	f := &flat{}
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		wire := protowire.BytesType
		switch field.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
		case protoreflect.BoolKind:
			wire = protowire.VarintType
		default:
			return nil
		}
		if i == maxFlat || field.HasPresence() || field.Cardinality() == protoreflect.Repeated ||
			i > 0 && field.Number() < f.fields[i-1].number {
			return nil
		}
		f.fields = append(f.fields, flatField{names: [2]string{field.JSONName(), string(field.Name())},
			number: field.Number(), wire: wire, kind: field.Kind()})
	}
	return f
}

// decode appends the message of a JSON text. ok is false if protojson has to read it.
func (f *flat) decode(msg []byte, root strictjson.Value) (_ []byte, ok bool) {
	if f == nil || root.Kind() != strictjson.Object {
		return nil, false
	}
	var found [maxFlat]strictjson.Value
	var has [maxFlat]bool
	for name, v := range root.Members() {
		i := f.named(name.Bytes())
		if i < 0 || has[i] {
			return nil, false
		}
		found[i], has[i] = v, true
	}
	for i := range f.fields {
		if !has[i] {
			continue
		}
		if msg, ok = f.fields[i].append(msg, found[i]); !ok {
			return nil, false
		}
	}
	return msg, true
}

func (f *flat) named(name []byte) int {
	for i := range f.fields {
		if names := &f.fields[i].names; string(name) == names[0] || string(name) == names[1] {
			return i
		}
	}
	return -1
}

// append appends a field, unless it has the default value.
func (f *flatField) append(msg []byte, v strictjson.Value) (_ []byte, ok bool) {
	kind, text := v.Kind(), v.Bytes()
	switch {
	case f.kind == protoreflect.BoolKind:
		if kind == strictjson.True {
			msg = append(protowire.AppendTag(msg, f.number, f.wire), 1)
		}
		return msg, kind == strictjson.True || kind == strictjson.False
	case kind != strictjson.String:
		return msg, false
	case len(text) == 0:
		return msg, true
	}
	msg = protowire.AppendTag(msg, f.number, f.wire)
	if f.kind == protoreflect.StringKind {
		return protowire.AppendBytes(msg, text), true
	}
	return appendBase64(msg, text)
}

// appendBase64 appends the bytes of a text, with their number. Like protojson, it accepts both alphabets, and texts
// without padding.
func appendBase64(msg, text []byte) (_ []byte, ok bool) {
	n := len(bytes.TrimRight(text, "=")) * 3 / 4
	msg = protowire.AppendVarint(msg, uint64(n))
	begin := len(msg)
	for _, encoding := range [...]*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if len(text)%4 != 0 {
			encoding = encoding.WithPadding(base64.NoPadding)
		}
		var err error
		if msg, err = encoding.AppendDecode(msg[:begin], text); err == nil {
			return msg, n > 0 && len(msg)-begin == n // line breaks are skipped
		}
	}
	return msg, false
}

// encode appends the JSON text of a message. ok is false if protojson has to convert it.
func (f *flat) encode(text, msg []byte) (_ []byte, ok bool) {
	if f == nil {
		return nil, false
	}
	var found [maxFlat][]byte
	for len(msg) > 0 {
		number, wire, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil, false
		}
		i := f.numbered(number)
		if i < 0 || wire != f.fields[i].wire || found[i] != nil {
			return nil, false
		}
		msg = msg[n:]
		if found[i], n = f.fields[i].take(msg); n < 0 {
			return nil, false
		}
		msg = msg[n:]
	}
	return f.write(text, &found), true
}

// take returns the value at the beginning of a message, and its length. A negative length means that protojson has to
// convert the message. The value of a boolean is empty for false.
func (f *flatField) take(msg []byte) (value []byte, n int) {
	if f.wire == protowire.VarintType {
		v, n := protowire.ConsumeVarint(msg)
		if n < 0 || v == 0 {
			return msg[:0], n
		}
		return msg[:n], n
	}
	value, n = protowire.ConsumeBytes(msg)
	if n >= 0 && f.kind == protoreflect.StringKind && !utf8.Valid(value) {
		return nil, -1
	}
	return value, n
}

// write appends the JSON text of the values of all fields.
func (f *flat) write(text []byte, values *[maxFlat][]byte) []byte {
	size := 2
	for i := range f.fields {
		size += len(f.fields[i].names[0]) + len(`"":"",`) + base64.StdEncoding.EncodedLen(len(values[i]))
	}
	text = append(slices.Grow(text, size), '{')
	begin := len(text)
	for i := range f.fields {
		field, value := &f.fields[i], values[i]
		if len(value) == 0 {
			continue
		}
		if len(text) > begin {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), field.names[0]...), '"', ':')
		switch field.kind {
		case protoreflect.BoolKind:
			text = append(text, "true"...)
		case protoreflect.BytesKind:
			text = append(base64.StdEncoding.AppendEncode(append(text, '"'), value), '"')
		default:
			text = strictjson.AppendString(text, value)
		}
	}
	return append(text, '}')
}

func (f *flat) numbered(number protowire.Number) int {
	for i := range f.fields {
		if f.fields[i].number == number {
			return i
		}
	}
	return -1
}
