package initfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/tenant"
)

// certificateLife is the validity of a self-signed certificate.
const certificateLife = 365 * 24 * time.Hour

// random returns random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which does not fail
	return b
}

// newPassword returns a password for Redis, of characters that neither sed nor Redis treats specially.
func newPassword() string { return hex.EncodeToString(random(32)) }

// newSecret returns a line for the file of secret_file.
func newSecret() string { return base64.StdEncoding.EncodeToString(random(sharedkey.Bytes)) }

// newKey adds a file with a new key, and returns the key's entry in the configuration.
func (b *builder) newKey(path, name string) (entry string) {
	id, secret := tenant.NewCredential()
	b.add(path, 0o600, tenant.Credential(id, secret)+"\n")
	return fmt.Sprintf("{id: %s, hash: %q, name: %s}", id, tenant.HashOf(secret, nil).String(), name)
}

// names returns the hosts that are not addresses.
func (b *builder) names() (names []string) {
	for _, host := range b.Hosts {
		if net.ParseIP(host) == nil {
			names = append(names, host)
		}
	}
	return names
}

// addCertificate adds a self-signed certificate for localhost and the hosts, and its key.
func (b *builder) addCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: new(big.Int).SetBytes(random(16)), Subject: pkix.Name{CommonName: "capgate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife), BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, b.names()...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, host := range b.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	b.add(dir+"tls.crt", 0o644, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	b.add(dir+"tls.key", 0o600, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	b.undecided = append(b.undecided, "tls: the certificate is self-signed, and valid for a year; replace tls.crt and "+
		"tls.key by those of an authority that clients trust")
	return nil
}
