package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/capgate/capgate/internal/config"
)

// serverTLS loads what the public port shows to clients and asks of them. It is
// nil without error when the port is cleartext.
func serverTLS(c config.ServerTLS) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.ClientCAFile != "" {
		if t.ClientCAs, err = certPool(c.ClientCAFile); err != nil {
			return nil, fmt.Errorf("tls.client_ca_file: %w", err)
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return t, nil
}

// backendTLS loads what connections to a fleet's backends show and ask. It is nil
// without error when they are cleartext. An empty ServerName stands for the host
// that is dialled.
func backendTLS(f *config.Fleet) (*tls.Config, error) {
	c := f.TLS
	if !c.Enabled {
		return nil, nil
	}
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Insecure, // the operator wrote insecure: true, which the documentation keeps for tests
	}
	var err error
	if c.CAFile != "" {
		if t.RootCAs, err = certPool(c.CAFile); err != nil {
			return nil, fmt.Errorf("fleet %s: tls.ca_file: %w", f.Capability, err)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("fleet %s: tls: %w", f.Capability, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

func certPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}
