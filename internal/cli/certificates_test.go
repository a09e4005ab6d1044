package cli

import (
	"crypto/tls"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestCertificatesOfTheFile: the identities of certificates, and whether callers need one, follow the file,
// also for existing connections.
func TestCertificatesOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	authority := certtest.New(t)
	cert, key := certtest.PEMOf(t, authority.Server(t))
	apiKey, ofKey := makeKey(t)
	files := configMap{dir: t.TempDir()}
	put := func(auth, rules string) {
		text := "tls: {cert_file: " + files.file("cert") + ", key_file: " + files.file("key") +
			", client_ca_file: " + files.file("ca") + auth + "}\n" +
			"tenants: [{id: acme, capabilities: ['*'], keys: [" + ofKey + "]}]\n" + rules
		files.put(t, map[string]string{"capgate.yaml": configOf(text, backend), "cert": cert, "key": key,
			"ca": authority.PEM})
	}
	put("", `certificates: [{spiffe: "spiffe://example.org/a", tenant: acme}]`)
	p, public, _ := serve(t, nil, "--config", files.file("capgate.yaml"))
	reasonOf := func(conn *grpc.ClientConn, meta ...string) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), meta...)
		_, err := docpb.NewCapabilityClient(conn).Invoke(ctx,
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		if info := clienttest.ErrorInfo(err); info != nil {
			return info.GetReason()
		}
		return status.Code(err).String()
	}
	connect := func(certs ...tls.Certificate) *grpc.ClientConn {
		conn, err := clienttest.NewConn("passthrough:///"+public,
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: authority.Pool,
				Certificates: certs})))
		check.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	a, b := connect(authority.Client(t, nil, "spiffe://example.org/a")),
		connect(authority.Client(t, nil, "spiffe://example.org/b"))
	if got := reasonOf(a) + " " + reasonOf(b) + " " +
		reasonOf(connect(), "x-api-key", apiKey); got != "OK CREDENTIAL_INVALID Unavailable" {
		t.Error(got)
	}
	put("", `certificates: [{spiffe: "spiffe://example.org/b", tenant: acme}]`)
	p.signal(t, syscall.SIGHUP)
	check.Until(t, "the other certificate to be known", func() (bool, string) {
		got := reasonOf(b)
		return got == "OK", got
	})
	if got := reasonOf(a) + " " + reasonOf(a, "x-api-key", apiKey); got != "CREDENTIAL_INVALID OK" {
		t.Error(got)
	}
	put(", client_auth: optional", "")
	p.signal(t, syscall.SIGHUP)
	check.Until(t, "clients without a certificate to be let in", func() (bool, string) {
		got := reasonOf(connect(), "x-api-key", apiKey)
		return got == "OK", got
	})
	if got := reasonOf(connect()); got != "CREDENTIAL_MISSING" {
		t.Error(got)
	}
	p.stop(t)
}
