package load

import (
	"cmp"
	"strconv"
	"time"

	"github.com/capgate/capgate/bench/h2"
)

// requests creates the calls of one window. They differ in capability and timeout.
type requests struct {
	cfg      *Config
	path     string
	bodies   []h2.Body // one for each capability
	timeouts []string
	next     int
}

// timeoutValues is larger than the number of entries in a header table, so that no value is found there again: the
// timeouts of real clients hardly repeat either.
const timeoutValues = 4096

func newRequests(cfg *Config) *requests {
	r := &requests{cfg: cfg, path: map[Method]string{
		Invoke: h2.PathInvoke, Legacy: h2.PathLegacy, Stream: h2.PathStream, Download: h2.PathDownload,
		Upload: h2.PathUpload,
	}[cfg.Method]}
	for i := range max(cfg.Capabilities, 1) {
		name := cfg.Capability
		if cfg.Capabilities > 1 {
			name += "-" + strconv.Itoa(i)
		}
		r.bodies = append(r.bodies, r.body(name))
	}
	if cfg.JSON != nil {
		r.bodies = []h2.Body{{Msg: cfg.JSON.Body, Count: 1}}
		r.timeouts = []string{""}
		return r
	}
	for i := range timeoutValues {
		// Timeouts just below 10 s, or an hour, as grpc-go formats them.
		if cfg.Mode == Hold {
			r.timeouts = append(r.timeouts, strconv.Itoa(3599999-i)+"m")
		} else {
			r.timeouts = append(r.timeouts, strconv.Itoa(9999990-i*37)+"u")
		}
	}
	return r
}

func (r *requests) body(capability string) h2.Body {
	switch r.cfg.Method {
	case Download:
		return h2.Body{Msg: h2.DownloadRequest(r.cfg.Work), Count: 1}
	case Upload:
		return h2.Body{Msg: h2.UploadChunk(r.cfg.RequestSize, false), Count: max(r.cfg.Chunks, 1)}
	default:
		msg := h2.InvokeRequest(r.cfg.Work, capability, "bench-session-1", r.cfg.RequestSize)
		return h2.Body{Msg: msg, Count: 1}
	}
}

// fields declares the headers of the calls, in grpc-go's order.
func (r *requests) fields(s *h2.Session) []int {
	scheme := "http"
	if r.cfg.TLS {
		scheme = "https"
	}
	if j := r.cfg.JSON; j != nil {
		return r.more(s, []int{
			s.Field(":method", "POST"),
			s.Field(":scheme", scheme),
			s.Field(":path", j.Path),
			s.Field(":authority", r.cfg.Target.String()),
			s.Field("content-type", cmp.Or(j.Type, "application/json")),
			s.Field("content-length", strconv.Itoa(len(j.Body))),
			s.Field("user-agent", userAgent),
			s.Field("accept", cmp.Or(j.Accept, "*/*")),
		})
	}
	f := []int{
		s.Field(":method", "POST"),
		s.Field(":scheme", scheme),
		s.Field(":path", r.path),
		s.Field(":authority", r.cfg.Target.String()),
		s.Field("content-type", "application/grpc"),
		s.Field("user-agent", "grpc-go/1.85.0"),
		s.Field("te", "trailers"),
	}
	if r.cfg.Method == Download || r.cfg.Method == Upload || r.cfg.Method == Legacy {
		f = append(f, s.Field("x-capability-id", r.cfg.Capability))
	}
	return r.more(s, f)
}

// more appends the fields that calls of every kind may have.
func (r *requests) more(s *h2.Session, fields []int) []int {
	for _, f := range r.cfg.Fields() {
		fields = append(fields, s.Field(f[0], f[1]))
	}
	return fields
}

// Fields returns the key and the further fields of each call.
func (c *Config) Fields() [][2]string {
	if c.Key == "" {
		return c.Header
	}
	return append([][2]string{{"authorization", "Bearer " + c.Key}}, c.Header...)
}

func (r *requests) take() (body h2.Body, timeout string) {
	r.next++
	return r.bodies[r.next%len(r.bodies)], r.timeouts[r.next%len(r.timeouts)]
}

// uploaded returns the number of DATA bytes that one call sends, or 0 if the scenario does not measure them.
func (r *requests) uploaded() int64 {
	if r.cfg.Method != Upload {
		return 0
	}
	return int64(len(r.bodies[0].Msg)) * int64(r.bodies[0].Count)
}

// userAgent is the User-Agent of JSON requests.
const userAgent = "capgate-bench"

// pending is a call in flight.
type pending struct {
	started time.Time
	answers bool // received the start of the first message
	http    bool // received the response headers
}
