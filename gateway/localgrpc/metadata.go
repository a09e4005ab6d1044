package localgrpc

import (
	"encoding/base64"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/relay"
)

// binary is how names of metadata end whose values are bytes (gRPC over HTTP/2, "Binary-Header").
const binary = "-bin"

// fieldsOf appends metadata as header fields. Names that gRPC keeps for itself are left out, as grpc-go does.
func fieldsOf(fields []relay.Field, md metadata.MD) []relay.Field {
	for name, values := range md {
		if name = strings.ToLower(name); reserved(name) {
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

// metadataOf returns header fields as metadata. Pseudo-headers and names that gRPC keeps for itself are left out.
func metadataOf(fields []relay.Field) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		if reserved(f.Name) {
			continue
		}
		if !strings.HasSuffix(f.Name, binary) {
			md[f.Name] = append(md[f.Name], f.Value)
			continue
		}
		for v := range strings.SplitSeq(f.Value, ",") { // several values in one field are usual
			if raw, err := decodeBinary(strings.TrimSpace(v)); err == nil {
				md[f.Name] = append(md[f.Name], string(raw))
			}
		}
	}
	return md
}

// decodeBinary reads base64 with or without padding (gRPC over HTTP/2, "ASCII-Value").
func decodeBinary(v string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
}

// reserved reports whether a name belongs to HTTP/2 or to gRPC itself.
func reserved(name string) bool {
	switch name {
	case "content-type", "te", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "grpc-status", "grpc-message",
		"grpc-status-details-bin":
		return true
	}
	return strings.HasPrefix(name, ":")
}
