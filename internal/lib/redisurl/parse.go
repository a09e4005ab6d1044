package redisurl

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Forms lists the forms that Parse accepts, for errors.
const Forms = `embedded, redis://HOST:PORT/DB, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or ` +
	`redis+cluster://HOST:PORT,HOST:PORT; rediss uses TLS`

// Parse reads "embedded" or one of
//
//	redis://user:password@host:6379/0
//	redis+sentinel://user:password@host:26379,host:26379/master?db=0&sentinel_user=u&sentinel_password=p
//	redis+cluster://user:password@host:6379,host:6379
//
// where the schemes rediss, rediss+sentinel and rediss+cluster use TLS. A port is optional. Special characters in
// names and passwords are escaped as in any URL (%40 for @).
func Parse(raw string) (Target, error) {
	if raw == "embedded" {
		return Target{Kind: Embedded}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return Target{}, errors.New("is not an address of a Redis; write " + Forms)
	}
	var t Target
	var port string
	switch scheme {
	case "redis", "rediss":
		t.Kind, port = Single, "6379"
	case "redis+sentinel", "rediss+sentinel":
		t.Kind, port = Sentinel, "26379"
	case "redis+cluster", "rediss+cluster":
		t.Kind, port = Cluster, "6379"
	default:
		return Target{}, errors.New("has an unknown scheme; write " + Forms)
	}
	t.TLS = strings.HasPrefix(scheme, "rediss")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	account, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		account, hosts = authority[:at], authority[at+1:]
	}
	err := t.account(account)
	if err == nil {
		err = t.hosts(hosts, port)
	}
	if err == nil {
		err = t.path(path)
	}
	if err == nil {
		err = t.query(query)
	}
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

// account parses user:password. Its errors quote neither.
func (t *Target) account(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var err error
	if t.Username, err = url.PathUnescape(user); err == nil {
		t.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("has a % in its user or password that does not begin an escape; write %25")
	}
	return nil
}

func (t *Target) hosts(s, port string) error {
	if t.Kind == Single && strings.Contains(s, ",") {
		return errors.New("has several hosts; write redis+sentinel:// or redis+cluster:// for them")
	}
	for host := range strings.SplitSeq(s, ",") {
		addr, err := withPort(host, port)
		if err != nil {
			return err
		}
		t.Addrs = append(t.Addrs, addr)
	}
	return nil
}

// withPort completes a host, a host:port, or an IPv6 address in brackets.
func withPort(s, port string) (string, error) {
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	}
	if host == "" {
		return "", errors.New("lacks a host (a / or @ in a password is written %2F or %40)")
	}
	if strings.ContainsAny(host, "[]/@% ") {
		return "", errors.New("has a host that is neither a name nor an IP address")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("has a port that is not a number from 1 to 65535 (a / or @ in a password is " +
			"written %2F or %40)")
	}
	return net.JoinHostPort(host, port), nil
}

// path parses the part behind the hosts: the database, or the master's name and then the database.
func (t *Target) path(s string) error {
	db := s
	switch t.Kind {
	case Sentinel:
		t.Master, db, _ = strings.Cut(s, "/")
		if t.Master == "" {
			return errors.New("lacks the name of the master, as in redis+sentinel://HOST:26379/mymaster")
		}
	case Cluster:
		if s != "" && s != "0" {
			return errors.New("names a database; a Cluster has only database 0")
		}
		return nil
	}
	return t.database(db)
}

func (t *Target) database(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("has a database that is not a number, as in redis://HOST:6379/0")
	}
	t.DB = n
	return nil
}

func (t *Target) query(s string) error {
	values, err := url.ParseQuery(s)
	if err != nil {
		return errors.New("has a query that cannot be read")
	}
	for name, all := range values {
		switch {
		case t.Kind != Sentinel:
			return errors.New("has a query; only redis+sentinel takes one")
		case len(all) > 1:
			return errors.New("has a parameter twice")
		case name == "sentinel_user":
			t.SentinelUsername = all[0]
		case name == "sentinel_password":
			t.SentinelPassword = all[0]
		case name == "db":
			if err := t.database(all[0]); err != nil {
				return err
			}
		default:
			return errors.New("has an unknown parameter; there are db, sentinel_user and sentinel_password")
		}
	}
	return nil
}
