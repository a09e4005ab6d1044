package cli

import (
	"crypto/tls"

	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/settings"
)

// tlsFlags are the flags for TLS with a server.
type tlsFlags struct {
	prefix            string // of their names
	on                bool
	caFile            string
	certFile, keyFile string // client certificate, and its key
}

func (f *tlsFlags) add(fs *pflag.FlagSet, prefix string) {
	f.prefix = prefix
	fs.BoolVar(&f.on, prefix+"tls", false, "connect with TLS")
	fs.StringVar(&f.caFile, prefix+"tls-ca", "",
		"PEM `file` of the certificate authorities to trust instead of the system's; implies TLS")
	fs.StringVar(&f.certFile, prefix+"tls-cert", "", "PEM `file` of a client certificate; implies TLS")
	fs.StringVar(&f.keyFile, prefix+"tls-key", "", "PEM `file` of the client certificate's key")
}

// given reports whether a flag requires TLS.
func (f *tlsFlags) given() bool { return f.on || f.caFile+f.certFile+f.keyFile != "" }

// config reads the files.
func (f *tlsFlags) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.caFile != "" {
		pool, err := tlsfiles.CertPool(f.caFile, settings.Files{})
		if err != nil {
			return nil, usageError("--%stls-ca: %w", f.prefix, err)
		}
		c.RootCAs = pool
	}
	if f.certFile+f.keyFile != "" {
		pair, err := tlsfiles.KeyPair(f.certFile, f.keyFile, settings.Files{})
		if err != nil {
			return nil, usageError("--%stls-cert, --%[1]stls-key: %w", f.prefix, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
