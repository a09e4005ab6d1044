package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"time"
)

// TB is the needed part of testing.TB.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Authority signs certificates.
type Authority struct {
	Pool *x509.CertPool // with its certificate only
	PEM  string         // its certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New creates an Authority.
func New(t TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool(), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var der []byte
	a.key, der = a.sign(t, a.cert)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("%v", err)
	}
	a.Pool.AddCert(a.cert)
	a.PEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// sign signs a certificate with a new key. If a has no certificate, it is self-signed.
func (a *Authority) sign(t TB, c *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("%v", err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), by)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return key, der
}

// Server returns a certificate for this machine and the given additional addresses.
func (a *Authority) Server(t TB, others ...net.IP) tls.Certificate {
	return a.issue(t, &x509.Certificate{DNSNames: []string{"localhost"},
		IPAddresses: append(others, net.IPv4(127, 0, 0, 1)),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

// Client returns a certificate for a client with these names; those with a colon are URIs. change may be nil.
func (a *Authority) Client(t TB, change func(*x509.Certificate), names ...string) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, name := range names {
		if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			c.URIs = append(c.URIs, u)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	if change != nil {
		change(c)
	}
	return a.issue(t, c)
}

func (a *Authority) issue(t TB, c *x509.Certificate) tls.Certificate {
	t.Helper()
	c.SerialNumber, c.NotBefore, c.KeyUsage = big.NewInt(2), time.Now().Add(-time.Hour), x509.KeyUsageDigitalSignature
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	key, der := a.sign(t, c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// PEMOf returns a certificate and its key as PEM.
func PEMOf(t TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	secret, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
