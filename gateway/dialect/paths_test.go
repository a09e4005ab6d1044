package dialect_test

import (
	"testing"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path string
		want dialect.Entry
		ok   bool
	}{
		{docpb.Capability_Invoke_FullMethodName, dialect.Entry{Method: call.Invoke, Dialect: call.Doc,
			Service: dialect.DocService}, true},
		{docpb.Capability_StreamInvoke_FullMethodName, dialect.Entry{Method: call.StreamInvoke, Dialect: call.Doc,
			Service: dialect.DocService}, true},
		{docpb.Capability_Healthcheck_FullMethodName, dialect.Entry{Method: call.Healthcheck, Dialect: call.Doc,
			Service: dialect.DocService}, true},
		{docpb.Capability_UploadInputArtifact_FullMethodName, dialect.Entry{Method: call.UploadInputArtifact,
			Dialect: call.Doc, Service: dialect.DocService}, true},
		{docpb.Capability_DownloadOutputArtifact_FullMethodName, dialect.Entry{Method: call.DownloadOutputArtifact,
			Dialect: call.Doc, Service: dialect.DocService}, true},
		{livepb.Capability_Invoke_FullMethodName, dialect.Entry{Method: call.Invoke, Dialect: call.Live,
			Service: dialect.LiveService}, true},
		{livepb.Capability_DownloadOutputArtifact_FullMethodName, dialect.Entry{Method: call.DownloadOutputArtifact,
			Dialect: call.Live, Service: dialect.LiveService}, true},
		{"/selu.capability.v1.CapabilityService/Invoke", dialect.Entry{Method: call.Invoke, Dialect: call.Legacy,
			Service: dialect.LegacyService}, true},
		{"/selu.capability.v1.CapabilityService/HealthCheck",
			dialect.Entry{Method: call.Healthcheck, Dialect: call.Legacy, Service: dialect.LegacyService}, true},
		{"/selu.capability.v1.CapabilityService/Healthcheck", dialect.Entry{}, false},
		{"/selu.capability.v1.CapabilityService/StreamInvoke", dialect.Entry{}, false},
		{"/selu.capability.Capability/", dialect.Entry{}, false},
		{"/selu.capability.Capability/invoke", dialect.Entry{}, false},
		{"/selu.capability.Capability/Invoke/", dialect.Entry{}, false},
		{"selu.capability.Capability/Invoke", dialect.Entry{}, false},
		{"/grpc.testing.TestService/UnaryCall", dialect.Entry{}, false},
		{"", dialect.Entry{}, false},
		{"/", dialect.Entry{}, false},
		{"//", dialect.Entry{}, false},
	} {
		got, ok := dialect.Lookup(tt.path)
		if got != tt.want || ok != tt.ok {
			t.Errorf("Lookup(%q) = %+v, %v; want %+v, %v", tt.path, got, ok, tt.want, tt.ok)
		}
		if ok {
			if p, _ := dialect.Path(got.Method, got.Dialect); p != tt.path {
				t.Errorf("Path(%v, %v) = %q, want %q", got.Method, got.Dialect, p, tt.path)
			}
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	path := livepb.Capability_DownloadOutputArtifact_FullMethodName
	if n := testing.AllocsPerRun(100, func() { dialect.Lookup(path) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPathOfNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m call.Method
		d call.Dialect
	}{{call.Other, call.Doc}, {call.Invoke, call.Auto}, {call.StreamInvoke, call.Legacy}, {200, call.Doc},
		{call.Invoke, 200}} {
		if p, ok := dialect.Path(tt.m, tt.d); ok || p != "" {
			t.Errorf("Path(%d, %d) = %q, %v", tt.m, tt.d, p, ok)
		}
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m        call.Method
		from, to call.Dialect
		want     dialect.Mode
	}{
		{call.Invoke, call.Live, call.Doc, dialect.Same},
		{call.StreamInvoke, call.Doc, call.Live, dialect.Same},
		{call.Healthcheck, call.Live, call.Doc, dialect.Same},
		{call.DownloadOutputArtifact, call.Live, call.Doc, dialect.Same},
		{call.UploadInputArtifact, call.Live, call.Doc, dialect.Convert},
		{call.UploadInputArtifact, call.Doc, call.Live, dialect.Convert},
		{call.UploadInputArtifact, call.Live, call.Live, dialect.Same},
		{call.UploadInputArtifact, call.Live, call.Auto, dialect.Same},
		{call.Invoke, call.Legacy, call.Doc, dialect.Convert},
		{call.Invoke, call.Live, call.Legacy, dialect.Convert},
		{call.StreamInvoke, call.Doc, call.Legacy, dialect.Convert},
		{call.UploadInputArtifact, call.Doc, call.Legacy, dialect.Impossible},
		{call.DownloadOutputArtifact, call.Live, call.Legacy, dialect.Impossible},
		{call.Healthcheck, call.Legacy, call.Live, dialect.Same},
		{call.Invoke, call.Legacy, call.Legacy, dialect.Same},
		{call.Other, call.Auto, call.Doc, dialect.Same},
		{call.Other, call.Live, call.Doc, dialect.Impossible},
	} {
		if got := dialect.Translate(tt.m, tt.from, tt.to); got != tt.want {
			t.Errorf("Translate(%v, %v, %v) = %v, want %v", tt.m, tt.from, tt.to, got, tt.want)
		}
	}
}
