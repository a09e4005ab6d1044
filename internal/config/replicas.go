package config

import (
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/redisurl"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Redis is the store that replicas share.
type Redis struct {
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
	Unsigned bool `yaml:"accept_unsigned" default:"false"`
	// true: a replica is ready although it has not read rules, keys and tenants since its start.
	ReadyWithout bool `yaml:"ready_without" default:"false"`
}

// Check checks that options have an effect on the server of the URL.
func (r *Redis) Check(at strictyaml.At) {
	if r.WaitReplicas > 0 && r.URL == redisurl.Embedded.String() {
		at.Fail("wait_replicas", "an embedded Redis has no replicas; leave it out")
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		at.Fail("", "cert_file and key_file belong together; give both or neither")
	}
	tls := r.CAFile != "" || r.CertFile != "" || r.ServerName != ""
	if tls && !strings.HasPrefix(r.URL, "rediss") {
		at.Fail("", "ca_file, cert_file, key_file and server_name are for TLS, so url must begin with rediss")
	}
}

// Replicas is the sharing of the probing of backends between replicas.
type Replicas struct {
	// This replica's name, unique, without spaces. auto: the host's name and a random suffix.
	ID string `yaml:"id" kind:"replica" default:"auto"`
	// Interval of heartbeats. A replica without one for a quarter longer is dead, and others take over its probes.
	// Every five intervals each compares its state with Redis, in case it missed a change. After 15 intervals without a
	// probe, 5s at least, the state of a backend is unknown, and calls may go there.
	Heartbeat time.Duration `yaml:"heartbeat" min:"200ms" max:"1m" default:"2s"`
}
