package tlsfiles

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
)

// Files reads files.
type Files interface {
	Read(name string) ([]byte, error)
	// Wrong returns an error about the content of a file, whose name the text contains.
	Wrong(name, format string, args ...any) error
}

// KeyPair reads both files even if the first is invalid, so that a change of either is detected.
func KeyPair(certFile, keyFile string, files Files) (tls.Certificate, error) {
	cert, certErr := files.Read(certFile)
	key, keyErr := files.Read(keyFile)
	if err := cmp.Or(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, files.Wrong(certFile, "%s and %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// CertPool reads a PEM file of certificate authorities.
func CertPool(file string, files Files) (*x509.CertPool, error) {
	pem, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, files.Wrong(file, "%s contains no PEM certificate", file)
	}
	return pool, nil
}
