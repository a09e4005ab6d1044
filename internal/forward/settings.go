package forward

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/capgate/capgate/internal/lib/weburl"
)

// The environment variables of Settings. Selu sets the first two in every container.
const (
	EnvCapability = "SELU_CAPABILITY_ID"
	EnvSession    = "SELU_SESSION_ID"
	EnvURL        = "CAPGATE_URL"
	EnvKey        = "CAPGATE_KEY"
	EnvKeyFile    = "CAPGATE_KEY_FILE"
	EnvCAFile     = "CAPGATE_CA_FILE"
	EnvCertFile   = "CAPGATE_CERT_FILE"
	EnvCertKey    = "CAPGATE_CERT_KEY_FILE"
	EnvListen     = "CAPGATE_LISTEN"
	EnvProxy      = "CAPGATE_PROXY"
)

// The defaults of Settings.
const (
	DefaultListen = ":50051"
	DefaultWait   = 5 * time.Second
	DefaultDrain  = 8 * time.Second // Docker kills a container 10 s after SIGTERM
)

// maxValue is the length of the longest name or key that is sent as metadata, in bytes.
const maxValue = 8 << 10

// Settings say what calls are forwarded as, and where to. Capability and URL are required.
type Settings struct {
	Capability string // the capability of all calls
	Session    string // the session of all calls; "": each call names its own, or has none
	URL        string // http://HOST:PORT or https://HOST:PORT of the gateway; several with commas between them
	Key        string // API key or token
	KeyFile    string // file with the key, instead of Key; it is read again when it changes
	CAFile     string // PEM file of the authorities to trust instead of the system's
	CertFile   string // PEM file of a client certificate; with CertKey
	CertKey    string // PEM file of its key
	Listen     string // address to listen on; default DefaultListen
	Proxy      string // ProxyEnvironment, or ProxyNone, the default

	Wait  time.Duration // how long a call that cannot start waits for a gateway; default DefaultWait
	Drain time.Duration // how long calls may take to end after the context has ended; default DefaultDrain

	proxies httpproxy.Config // of the environment
}

// FromEnvironment returns the settings of the environment variables.
func FromEnvironment(getenv func(string) string) Settings {
	return Settings{
		Capability: getenv(EnvCapability), Session: getenv(EnvSession), URL: getenv(EnvURL), Key: getenv(EnvKey),
		KeyFile: getenv(EnvKeyFile), CAFile: getenv(EnvCAFile), CertFile: getenv(EnvCertFile),
		CertKey: getenv(EnvCertKey), Listen: getenv(EnvListen), Proxy: getenv(EnvProxy), proxies: proxiesOf(getenv),
	}
}

// SettingError describes an invalid setting.
type SettingError struct {
	Setting string // its environment variable
	Problem string
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Problem }

func wrong(setting, format string, args ...any) error {
	return &SettingError{setting, fmt.Sprintf(format, args...)}
}

// withDefaults checks what needs no file, and sets the defaults.
func (s Settings) withDefaults() (Settings, error) {
	if s.Listen == "" {
		s.Listen = DefaultListen
	}
	if s.Wait <= 0 {
		s.Wait = DefaultWait
	}
	if s.Drain <= 0 {
		s.Drain = DefaultDrain
	}
	switch {
	case s.Capability == "":
		return s, wrong(EnvCapability, "no capability is named; want its id, as in weather")
	case !isValue(s.Capability):
		return s, wrong(EnvCapability, "%.64q is not the id of a capability", s.Capability)
	case s.Session != "" && !isValue(s.Session):
		return s, wrong(EnvSession, "%.64q is not the id of a session; want printable ASCII without spaces", s.Session)
	case s.Key != "" && s.KeyFile != "":
		return s, wrong(EnvKey, "the key is given twice, also by %s; want one of them", EnvKeyFile)
	case s.Key != "" && !isValue(s.Key):
		return s, wrong(EnvKey, "the value is not a key; want printable ASCII without spaces")
	case s.CertFile != "" && s.CertKey == "":
		return s, wrong(EnvCertKey, "the key of the certificate in %s is missing", EnvCertFile)
	case s.CertKey != "" && s.CertFile == "":
		return s, wrong(EnvCertFile, "the certificate of the key in %s is missing", EnvCertKey)
	}
	return s, nil
}

// isValue reports whether a text can be sent as the value of a header, without a space.
func isValue(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxValue
}

// endpoint is one address of the gateway, as the settings name it.
type endpoint struct {
	host, port string
	secure     bool
}

func (e endpoint) authority() string { return net.JoinHostPort(e.host, e.port) }

// endpoints reads the list of URLs.
func (s Settings) endpoints() (all []endpoint, err error) {
	for text := range strings.SplitSeq(s.URL, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		e, ok := parseURL(text)
		if !ok {
			return nil, wrong(EnvURL, "%.128q: want http://HOST:PORT or https://HOST:PORT, or several with commas "+
				"between them", text)
		}
		if !e.secure && (s.CAFile != "" || s.CertFile != "") {
			return nil, wrong(EnvURL, "%s is cleartext, and a certificate is set; write https://%s", text,
				e.authority())
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, wrong(EnvURL, "the gateway's address is missing; want https://HOST:PORT")
	}
	if len(all) > maxEndpoints {
		return nil, wrong(EnvURL, "%d addresses are too many; want at most %d, or a name that has them all", len(all),
			maxEndpoints)
	}
	return all, nil
}

// maxEndpoints bounds the addresses in the settings, and those of a name that are tried.
const maxEndpoints = 16

func parseURL(text string) (e endpoint, ok bool) {
	u, err := weburl.ParseBare(text, "")
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return e, false
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return endpoint{host: u.Hostname(), port: port, secure: u.Scheme == "https"}, true
}

// tlsConfig reads the files of certificates.
func (s Settings) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, wrong(EnvCAFile, "%v", fileProblem(s.CAFile, err))
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong(EnvCAFile, "%s contains no PEM certificate", s.CAFile)
		}
	}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.CertKey)
		if err != nil {
			return nil, wrong(EnvCertFile, "%s and %s: %v", s.CertFile, s.CertKey, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// fileProblem says why a file cannot be read, without the name of the system call.
func fileProblem(file string, err error) error {
	var of *os.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("%s cannot be read: %w", file, err)
}
