package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	signatureFile = checksumsFile + ".sig"
	installerFile = "install.sh"
	publicKeyFile = "capgate.pub"
	bundleFile    = checksumsFile + ".sigstore.json"
)

// readKey reads the signing key: ECDSA P-256 in PEM, as openssl ecparam writes it.
func readKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err == nil && key.Curve == elliptic.P256() {
			return key, nil
		}
		if other, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := other.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s has no ECDSA P-256 key; make release-key makes one", file)
}

// publicKey returns the public key in PEM.
func (r *release) publicKey() (string, error) {
	public, err := x509.MarshalPKIXPublicKey(r.key.Public())
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), err
}

// makePublicKey writes the public key, if the release is signed.
func (r *release) makePublicKey(context.Context) error {
	if r.key == nil {
		return nil
	}
	text, err := r.publicKey()
	if err != nil {
		return err
	}
	return r.write(publicKeyFile, []byte(text))
}

// makeInstaller writes install.sh with the version and the public key. An unsigned release has none, because it could
// not verify anything.
func (r *release) makeInstaller(context.Context) error {
	if r.key == nil {
		r.log.Println("not signed: without -key there is no", installerFile)
		return nil
	}
	script, err := os.ReadFile(filepath.Join(r.source, "deploy/install", installerFile))
	if err != nil {
		return err
	}
	public, err := r.publicKey()
	if err != nil {
		return err
	}
	text := strings.TrimSpace(public)
	filled := strings.NewReplacer("@VERSION@", r.version, "@PUBLIC_KEY@", text).Replace(string(script))
	if strings.Count(filled, text) != 1 || strings.Count(filled, "'"+r.version+"'") != 1 {
		return errors.New("install.sh has no single place for the version and the public key")
	}
	return r.write(installerFile, []byte(filled))
}

// makeSignatures signs the checksums with the key and with cosign, if they are given. cosign verify-blob --key also
// accepts the key's signature.
func (r *release) makeSignatures(ctx context.Context) error {
	if r.key != nil {
		text, err := os.ReadFile(r.file(checksumsFile))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		signature, err := r.key.Sign(nil, sum[:], crypto.SHA256) // nil selects deterministic signatures (RFC 6979)
		if err != nil {
			return err
		}
		if err := r.write(signatureFile, []byte(base64.StdEncoding.EncodeToString(signature)+"\n")); err != nil {
			return err
		}
	}
	if r.cosign == "" {
		return nil
	}
	_, err := r.command(ctx, nil, r.cosign, "sign-blob", "--yes", "--bundle", r.file(bundleFile), r.file(checksumsFile))
	return err
}
