package kubeapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/httpclient"
)

// Files of a pod's service account.
const (
	accountDir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// InClusterAddress is the address of the API server in every cluster, by the cluster's DNS.
	InClusterAddress = "https://kubernetes.default.svc"
	// InClusterCA, InClusterToken and InClusterNamespace are mounted into pods.
	InClusterCA        = accountDir + "ca.crt"
	InClusterToken     = accountDir + "token"
	InClusterNamespace = accountDir + "namespace"
)

// Bounds of what files and responses may have.
const (
	maxFile    = 1 << 20
	maxPage    = 16 << 20 // a larger page is requested again in parts
	maxEvent   = 8 << 20  // an object in etcd has at most 1.5 MiB
	maxMessage = 16 << 10
)

// Intervals after which a silent connection is tested, and given up.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// Config describes an API server.
type Config struct {
	Address   string        // URL; default InClusterAddress
	CAFile    string        // authorities of the server, PEM; "": those of the system
	TokenFile string        // bearer token; "": none
	Timeout   time.Duration // of a page, and of the beginning of a watch; default 30 s
}

// Client sends requests to an API server. It reads the files again for each request, because kubelet replaces them.
type Client struct {
	config Config

	mu   sync.Mutex
	http *http.Client
	pem  []byte // of the authorities of http
}

// New returns a Client. The caller must close it.
func New(c Config) *Client {
	c.Address = strings.TrimSuffix(cmp.Or(c.Address, InClusterAddress), "/")
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	return &Client{config: c}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// wholeObjects is the media type of complete objects.
const wholeObjects = "application/json"

// metadataOf returns the media type of the metadata of objects, in a list or an event of a kind.
func metadataOf(kind string) string { return "application/json;as=" + kind + ";g=meta.k8s.io;v=v1" }

// get sends a GET request for a media type. It returns a StatusError for each response other than 200. The caller must
// close the body.
func (c *Client) get(ctx context.Context, path string, query url.Values, accept string) (io.ReadCloser, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Address+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if c.config.TokenFile != "" {
		token, err := readFile(c.config.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token of the service account: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	resp, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", c.config.Address, withoutURL(err))
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, statusError(resp)
	}
	return resp.Body, nil
}

// client returns the HTTP client, a new one if the file of the authorities has changed.
func (c *Client) client() (*http.Client, error) {
	pem, err := []byte(nil), error(nil)
	if c.config.CAFile != "" {
		if pem, err = readFile(c.config.CAFile); err != nil {
			return nil, fmt.Errorf("authorities of the API server: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil && bytes.Equal(pem, c.pem) {
		return c.http, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem != nil {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authorities of the API server: %s contains no PEM certificate", c.config.CAFile)
		}
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.pem = pem
	c.http = httpclient.New(httpclient.Config{Name: "capgate-kubernetes", TLS: secure, Compression: true,
		PingAfter: pingAfter, PingTimeout: pingTimeout})
	return c.http, nil
}

// readFile reads a small file.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return text, err
}

// withoutURL returns the cause of an error of net/http, whose text repeats the whole URL.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
