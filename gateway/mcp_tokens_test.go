package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// twoPieces sends its response in two pieces.
type twoPieces struct {
	docpb.UnimplementedCapabilityServer
}

// StreamInvoke implements docpb.CapabilityServer.
func (twoPieces) StreamInvoke(_ *docpb.InvokeRequest, s grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	if err := s.Send(&docpb.InvokeChunk{Data: []byte("one")}); err != nil {
		return err
	}
	return s.Send(&docpb.InvokeChunk{Data: []byte("two"), Done: true})
}

// TestMCPProgressTokensAreReturnedUnchanged: progress has exactly the client's token, however long its number
// is.
func TestMCPProgressTokensAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, twoPieces{}) })
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Fleets[0].Backends, o.Fleets[0].Unprobed = []string{backend.Addr}, true
	})
	for _, token := range []string{`1`, `9007199254740993`, `-9223372036854775808`, `123456789012345678901`, `"a b"`} {
		status, text := f.postMCP(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__`+
			gatewaytest.Echo+`","arguments":{},"_meta":{"progressToken":`+token+`}}}`)
		if status != http.StatusOK || !strings.Contains(text, `"progressToken":`+token+`}`) &&
			!strings.Contains(text, `"progressToken":`+token+`,`) {
			t.Errorf("token %s: %d %s", token, status, text)
		}
	}
}
