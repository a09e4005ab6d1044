package cli

import (
	"io"

	engineconfig "github.com/capgate/capgate/gateway/engine/config"
	grpcconfig "github.com/capgate/capgate/gateway/upstream/grpcservice/config"
	mcpconfig "github.com/capgate/capgate/gateway/upstream/mcp/config"

	"crypto/tls"
	"errors"
	"fmt"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// settings are a valid configuration: the file with its overrides, and the contents of the files that it names.
type settings struct {
	cfg         *config.Config
	store       redisstore.Config
	server      *tls.Config                       // of the public port; nil: cleartext
	adminTLS    *tls.Config                       // of the admin API; nil: cleartext
	listenerTLS []*tls.Config                     // of the listeners; nil: cleartext
	backends    map[config.BackendTLS]*tls.Config // of the fleets and shields that are reached by TLS, and of traces
	files       fingerprints                      // of all these files

	approvalKeys    [][]byte         // of approvals.key_file
	idempotencyKeys [][]byte         // of idempotency.key_file
	signingKeys     [][]byte         // of artifacts.signing_key_file
	sessionKeys     [][]byte         // of operators.session.key_file
	signIn          []signin.Issuer  // of operators.sign_in, with their secrets
	webhooks        []webhook.Config // of approvals.webhook, if there is one, and of approvals.notices

	traceHeaders map[string]string // of traces.headers_file

	keys    []tenant.Key   // of the tenants
	pepper  []byte         // of pepper_file; nil: none
	issuers []token.Issuer // of tokens

	operatorKeys []guard.Key // of operators.keys

	calls io.Writer // where calls are logged; nil: in the log

	mcpHeaders map[string]map[string]string // of requests to MCP servers, by capability
	grpc       map[string]grpcService       // by capability

	manifests map[string]*manifest.Manifest // by file
	found     map[string]string             // in cfg.Manifests: id → file
}

// loadSettings reads a configuration file and all that it names.
func loadSettings(file string, over overrides) (*settings, error) {
	files := fingerprints{}
	cfg, err := parseFile(file, over, files)
	if err != nil {
		return nil, err
	}
	return withFiles(cfg, files, nil)
}

// parseFile reads a configuration file. The error has every problem, one a line, each
// beginning with the file's name.
func parseFile(file string, over overrides, files fingerprints) (*config.Config, error) {
	data, err := files.read(file)
	if err != nil {
		return nil, err
	}
	if isManifest(data) {
		return nil, fmt.Errorf("%s is the manifest of a capability, and not a configuration: a fleet's field manifest "+
			"names it (docs/write/manifest.md), and capgate init writes a configuration", file)
	}
	cfg, err := config.Parse(file, data, protocols()...)
	if err == nil {
		err = over.apply(cfg)
	}
	return cfg, err
}

// withFiles reads the files that a configuration names, and stores their hashes in files. Values that did not
// change since before, which may be nil, are reused. The error has every problem.
func withFiles(cfg *config.Config, files fingerprints, before *settings) (*settings, error) {
	s := &settings{cfg: cfg, backends: map[config.BackendTLS]*tls.Config{}, files: files}
	var problems []error
	server, err := serverTLS(cfg.TLS, files)
	if err != nil {
		problems = append(problems, err)
	}
	s.server = server
	if s.store, err = storeConfig(cfg.Redis, files); err != nil {
		problems = append(problems, err)
	}
	if file := cfg.Approvals.KeyFile; file != "" {
		if s.approvalKeys, err = readKeys(file, files); err != nil {
			problems = append(problems, fmt.Errorf("approvals.key_file: %w", err))
		}
	}
	if file := cfg.Idempotency.KeyFile; file != "" {
		if s.idempotencyKeys, err = readKeys(file, files); err != nil {
			problems = append(problems, fmt.Errorf("idempotency.key_file: %w", err))
		}
	}
	if file := cfg.Artifacts.KeyFile; file != "" {
		if s.signingKeys, err = readKeys(file, files); err != nil {
			problems = append(problems, fmt.Errorf("artifacts.signing_key_file: %w", err))
		}
	}
	var wrong []error
	s.webhooks, wrong = readWebhooks(&cfg.Approvals, files)
	problems = append(problems, wrong...)
	if file := cfg.Traces.HeadersFile; file != "" {
		if s.traceHeaders, err = readHeaders(file, files); err != nil {
			problems = append(problems, fmt.Errorf("traces.headers_file: %w", err))
		}
	}
	if t := cfg.TLS; before != nil && before.cfg.TLS == t &&
		files.agree(before.files, t.CertFile, t.KeyFile, t.ClientCAFile) {
		s.server = before.server
	}
	if err = s.readListenerTLS(before); err != nil {
		problems = append(problems, problemsOf(err)...)
	}
	problems = append(problems, s.readTenants()...)
	problems = append(problems, s.readIssuers()...)
	problems = append(problems, s.readSignIn()...)
	problems = append(problems, s.readOperators(before)...)
	problems = append(problems, s.readBackendTLS(before)...)
	problems = append(problems, s.readMCPHeaders()...)
	problems = append(problems, s.readGRPCServices(before)...)
	problems = append(problems, s.readManifests(before)...)
	if len(problems) > 0 {
		return nil, errors.Join(placed(cfg, problems)...)
	}
	return s, nil
}

// protocols are those that fleets may speak besides Selu's.
func protocols() []*config.Protocol {
	return []*config.Protocol{engineconfig.Protocol(), mcpconfig.Protocol(), grpcconfig.Protocol()}
}

// ofEngines reports whether a fleet is of engines, which keep their sessions on disk.
func ofEngines(f *config.Fleet) bool {
	_, is := f.Settings.(*engine.Settings)
	return is
}
