package localgrpc

import (
	"encoding/base64"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/relay"
)

// binary is the suffix of metadata names with binary values (gRPC over HTTP/2, "Binary-Header").
const binary = "-bin"

// fieldsOf appends metadata as header fields, without names reserved by gRPC, as grpc-go does.
func fieldsOf(fields []relay.Field, md metadata.MD) []relay.Field {
	for name, values := range md {
		if name = strings.ToLower(name); Reserved(name) {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, binary) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			fields = append(fields, relay.Field{Name: name, Value: v})
		}
	}
	return fields
}

// metadataOf returns header fields as metadata, without pseudo-headers and names reserved by gRPC.
func metadataOf(fields []relay.Field) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		if Reserved(f.Name) {
			continue
		}
		if !strings.HasSuffix(f.Name, binary) {
			md[f.Name] = append(md[f.Name], f.Value)
			continue
		}
		for v := range strings.SplitSeq(f.Value, ",") { // several values in one field are common
			if raw, err := decodeBinary(strings.TrimSpace(v)); err == nil {
				md[f.Name] = append(md[f.Name], string(raw))
			}
		}
	}
	return md
}

// decodeBinary decodes base64 with or without padding (gRPC over HTTP/2, "ASCII-Value").
func decodeBinary(v string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
}

// Reserved reports whether a name belongs to HTTP/2 or to gRPC itself.
func Reserved(name string) bool {
	switch name {
	case "content-type", "te", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "grpc-status", "grpc-message",
		"grpc-status-details-bin":
		return true
	}
	return strings.HasPrefix(name, ":")
}
