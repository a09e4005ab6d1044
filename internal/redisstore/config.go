package redisstore

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/redisurl"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Config selects a Redis and its timeouts. The zero value is embedded.
type Config struct {
	// Address: embedded, a store inside the process that is not shared; redis://user@host:6379/0;
	// redis+sentinel://host:26379,host:26379/master; or redis+cluster://host:6379,host:6379. rediss, rediss+sentinel
	// and rediss+cluster use TLS.
	URL string `yaml:"url" kind:"redis" default:"embedded" scalar:""`
	// File with the password, without the final newline; it overrides the url's.
	PasswordFile string `yaml:"password_file" kind:"file"`
	// Authorities of a rediss server, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
	// Client certificate, PEM, with key_file.
	CertFile string `yaml:"cert_file" kind:"file"`
	// Private key of the client certificate, PEM.
	KeyFile string `yaml:"key_file" kind:"file"`
	// Name in the server's certificate. Default the host of the address.
	ServerName string `yaml:"server_name" kind:"server_name"`
	// Timeout of a command, after which Redis counts as unavailable.
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"10s" default:"250ms"`
	// Number of Redis replicas that must have the redemption of an approval, or the claim of an idempotency key, before
	// the call runs. It is rejected after a second without them. Default none.
	WaitReplicas int `yaml:"wait_replicas" min:"1" max:"10"`
	// true: unsigned records are accepted, during the introduction of secret_file.
	AcceptUnsigned bool `yaml:"accept_unsigned" default:"false"`
	// true: a replica is ready although it has not read rules, keys and tenants since its start.
	ReadyWithout bool `yaml:"ready_without" default:"false"`

	Password    string        // of PasswordFile; default the URL's
	TLS         *tls.Config   // of the files, for rediss; nil: the system's CAs
	WaitTimeout time.Duration // of the wait for WaitReplicas; default 1s
	StoreKeys   [][]byte      // sign records that grant something: the first one signs, all verify; none: no signatures

	Dial   time.Duration // of one connection attempt, in the background if a command has no time left; default 1s
	Prefix string        // of every key and channel; default "cg:"
	// Dialer connects to a server that is not embedded; default nil: over TCP, with TLS for rediss.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Before is called before each command and subscription, with what it does. A simulation orders them so. It returns
	// when ctx ends; default nil: nothing is.
	Before func(ctx context.Context, command string)
	// Stalled returns for how long goroutines of the process have waited for a CPU since the start; default: measured,
	// unless there is a Dialer; all time for an embedded Redis, which is as slow as its process. It must not block.
	Stalled func() time.Duration
	// Jitter returns a random duration below its argument; default rand.N.
	Jitter func(time.Duration) time.Duration
	Log    *slog.Logger // logs the loss and the return of Redis; nil: discarded
}

// Check checks that options have an effect on the server of the URL.
func (c *Config) Check(at strictyaml.At) {
	if c.WaitReplicas > 0 && c.URL == redisurl.Embedded.String() {
		at.Fail("wait_replicas", "an embedded Redis has no replicas; leave it out")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		at.Fail("", "cert_file and key_file belong together; give both or neither")
	}
	tls := c.CAFile != "" || c.CertFile != "" || c.ServerName != ""
	if tls && !strings.HasPrefix(c.URL, "rediss") {
		at.Fail("", "ca_file, cert_file, key_file and server_name are for TLS, so url must begin with rediss")
	}
}

func (c *Config) setDefaults() {
	strictyaml.Fill(c)
	if c.WaitTimeout == 0 {
		c.WaitTimeout = time.Second
	}
	if c.Dial == 0 {
		c.Dial = time.Second
	}
	if c.Jitter == nil {
		c.Jitter = rand.N[time.Duration]
	}
	if c.Prefix == "" {
		c.Prefix = "cg:"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
