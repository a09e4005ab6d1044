package settings

import (
	"io"

	"crypto/tls"
	"errors"
	"fmt"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// Settings are a valid configuration: the file with its overrides, and the contents of the files that it names.
type Settings struct {
	Config      *config.Config
	Store       redisstore.Config
	ServerTLS   *tls.Config                     // of the public port; nil: cleartext
	AdminTLS    *tls.Config                     // of the admin API; nil: cleartext
	ListenerTLS []*tls.Config                   // of the listeners; nil: cleartext
	Backends    map[tlsfiles.Client]*tls.Config // of the fleets and shields that are reached by TLS, and of traces
	Files       Files                           // of all these files

	Secrets  [][]byte         // of secret_file
	SignIn   []token.Client   // of operators.sign_in, with their secrets
	Webhooks []webhook.Config // of approvals.notices

	TraceHeaders map[string]string // of traces.headers_file

	Keys    []tenant.Key   // of the tenants
	Pepper  []byte         // of pepper_file; nil: none
	Issuers []token.Issuer // of tokens

	OperatorKeys []guard.Key // of operators.keys

	CallLines io.Writer // where calls are logged; nil: in the log

	Upstreams map[string]*upstream.Fleet // by capability; fleets that the process serves, with the content of files

	Manifests map[string]*manifest.Manifest // by file
	found     map[string]string             // in cfg.Manifests: id → file
}

// Load reads a configuration file and all that it names.
func Load(file string, over Overrides) (*Settings, error) {
	files := Files{}
	cfg, err := ParseFile(file, over, files)
	if err != nil {
		return nil, err
	}
	return WithFiles(cfg, files, nil)
}

// ParseFile reads a configuration file. The error has every problem, one a line, each
// beginning with the file's name.
func ParseFile(file string, over Overrides, files Files) (*config.Config, error) {
	data, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	if IsManifest(data) {
		return nil, fmt.Errorf("%s is the manifest of a capability, and not a configuration: a fleet's field manifest "+
			"names it (docs/write/manifest.md), and capgate init writes a configuration", file)
	}
	cfg, err := config.Parse(file, data, protocols.Config()...)
	if err == nil {
		err = over.Apply(cfg)
	}
	return cfg, err
}

// WithFiles reads the files that a configuration names, and stores their hashes in files. Values that did not
// change since before, which may be nil, are reused. The error has every problem.
func WithFiles(cfg *config.Config, files Files, before *Settings) (*Settings, error) {
	s := &Settings{Config: cfg, Backends: map[tlsfiles.Client]*tls.Config{}, Files: files}
	var problems []error
	var err error
	if file := cfg.SecretFile; file != "" {
		if s.Secrets, err = ReadSecrets(file, files); err != nil {
			problems = append(problems, fmt.Errorf("secret_file: %w", err))
		}
	}
	if s.ServerTLS, err = cfg.TLS.Read(s.Files, s.Secrets...); err != nil {
		problems = append(problems, err)
	}
	if before != nil && s.sameTLS(before, &cfg.TLS, &before.Config.TLS) {
		s.ServerTLS = before.ServerTLS
	}
	if s.Store, err = storeConfig(cfg.Redis, files); err != nil {
		problems = append(problems, err)
	}
	var wrong []error
	s.Webhooks, wrong = readWebhooks(&cfg.Approvals, files)
	problems = append(problems, wrong...)
	if file := cfg.Traces.HeadersFile; file != "" {
		if s.TraceHeaders, err = readHeaders(file, files); err != nil {
			problems = append(problems, fmt.Errorf("traces.headers_file: %w", err))
		}
	}
	if err = s.readListenerTLS(before); err != nil {
		problems = append(problems, Problems(err)...)
	}
	problems = append(problems, s.readTenants()...)
	problems = append(problems, s.readIssuers()...)
	problems = append(problems, s.readSignIn()...)
	problems = append(problems, s.readOperators(before)...)
	problems = append(problems, s.readBackendTLS(before)...)
	problems = append(problems, s.readUpstreams(before)...)
	problems = append(problems, s.readManifests(before)...)
	if len(problems) > 0 {
		return nil, errors.Join(placed(cfg, problems)...)
	}
	return s, nil
}
