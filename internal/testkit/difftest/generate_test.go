package difftest

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// generator generates attempts. The same seed and number give the same attempt.
type generator struct {
	*rand.Rand
	fleets []string
}

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func (g *generator) often(percent int) bool { return g.IntN(100) < percent }

// attempt generates an attempt. Most have one or two oddities; with more, all would be rejected.
func (g *generator) attempt() *attempt {
	a := &attempt{fleet: pick(g, g.fleets...), header: plainHeader(), named: true}
	if g.often(10) {
		g.overHTTP(a)
		return a
	}
	d := dialectOf(a.fleet)
	a.path = invokePaths[d]
	form := d // of the message
	switch n := g.IntN(100); {
	case n < 10 && d != legacy:
		a.path = streamPaths[d]
	case n < 20 && d != legacy:
		g.download(a, d)
		return a
	case n < 28: // translated by the gateway
		form = pick(g, live, doc, legacy)
		a.path = invokePaths[form]
	}
	m := message{
		legacy: form == legacy, tool: pick(g, "free", "free", "run", "run", "blocked"),
		session:    pick(g, "", "", "mine", "other"),
		capability: pick(g, "", a.fleet), thread: pick(g, "", "thread"),
	}
	m.args, m.config = g.arguments(), g.configuration()
	a.parts = m.parts()
	if m.capability != "" && g.often(30) {
		a.named = false
	}
	for range pick(g, 0, 1, 1, 1, 2) {
		g.spoil(a, &m)
	}
	return a
}

func dialectOf(fleet string) string { return fleet[strings.LastIndex(fleet, "-")+1:] }

func (g *generator) download(a *attempt, d string) {
	a.path = downloadPaths[d]
	a.parts = [][]byte{text(1, pick(g, "ours", "ours", "theirs"))}
	switch g.IntN(4) {
	case 0:
		a.parts = g.twist(a.parts, 1, "theirs")
	case 1:
		a.path = g.odd(a.path)
	case 2:
		a.pack = pack(g.IntN(int(packings)))
	}
}

// spoil adds one oddity.
func (g *generator) spoil(a *attempt, m *message) {
	switch n := g.IntN(100); {
	case n < 45:
		a.parts = g.spoilMessage(a.parts, m)
	case n < 60:
		a.path = g.odd(a.path)
	case n < 75:
		g.spoilHeader(a)
	case n < 90:
		a.pack = pack(g.IntN(int(packings)))
	default:
		a.more = append(a.more, pick(g, overlay, nil, []byte{0xff}))
	}
}

// odd returns a path that some servers treat as another one.
func (g *generator) odd(path string) string {
	slash := strings.LastIndex(path, "/")
	if slash < 1 || slash == len(path)-1 {
		return path // it is odd enough
	}
	service, method := path[:slash], path[slash+1:]
	at := g.IntN(len(path))
	return pick(g,
		path+pick(g, "?", "?x=1", "#", ";", ";x", "/", "//", "/.", " ", "%20", "%00", "%", "%zz", "\t", "/..", "."),
		path[:at]+percent(path[at])+path[at+1:],
		service+"%2f"+method, service+"%2F"+method, service+"//"+method, service+"\\"+method, "/"+path, path[1:],
		service+"/./"+method, service+"/x/../"+method, "/x/.."+path, "/."+path, service+"/"+strings.ToLower(method),
		strings.ToUpper(service)+"/"+method, service+"/"+strings.ToUpper(method[:1])+method[1:]+
			"\u200b", "http://capgate.test"+path,
		"//capgate.test"+path, "*", "", service+
			"/Unknown", strings.Replace(path, ".", "%2e", 1), strings.Replace(path, "I", "\u0130", 1),
		path[:at]+pick(g, ";", "%25", "_", "-", "\x7f", "é")+path[at:],
	)
}

func percent(c byte) string {
	const digits = "0123456789abcdef"
	return "%" + string([]byte{digits[c>>4], digits[c&15]})
}

func (g *generator) spoilHeader(a *attempt) {
	if len(a.header) < 2 {
		return
	}
	switch g.IntN(4) {
	case 0: // another content type
		a.header[0].value = pick(g, "application/grpc+proto", "application/grpc+json",
			"application/grpc; charset=utf-8", "application/grpc+PROTO",
			"Application/Grpc", "application/grpc-web+proto", "application/json", "application/proto",
			"application/grpcx", "application/grpc+thrift", " application/grpc", "")
		if strings.Contains(a.header[0].value, "json") && g.often(50) {
			a.parts = [][]byte{[]byte(`{"toolName":"blocked"}`)}
		}
	case 1: // one of the known twice
		f := pick(g, field{"content-type", "application/grpc"}, field{"content-type", "application/grpc+json"},
			field{"te", "trailers"}, field{"te", "gzip"},
			field{"grpc-encoding", "identity"}, field{"grpc-timeout", "5S"},
			field{"x-capability-id", pick(g, g.fleets...)}, field{"grpc-encoding", "gzip"})
		a.header = slices.Insert(a.header, g.IntN(len(a.header)+1), f)
		if f.name == "grpc-timeout" && g.often(50) {
			a.header = append(a.header, field{f.name, "0n"})
		}
	case 2: // one more
		a.header = append(a.header, pick(g, field{"grpc-timeout", "0S"}, field{"grpc-timeout", "00000000n"},
			field{"grpc-timeout", "-1S"}, field{"grpc-timeout", "20S"},
			field{"grpc-timeout", "99999999H"}, field{"grpc-encoding", "identity"}, field{"grpc-encoding", "gzip"},
			field{"grpc-encoding", "deflate"}, field{"grpc-encoding", "GZIP"},
			field{"grpc-encoding", "gzip,gzip"}, field{"content-encoding", "gzip"},
			field{"connect-protocol-version", "1"}, field{"x-http-method-override", "GET"},
			field{"x-session-id", "mine"}, field{"grpc-accept-encoding", "gzip"}, field{"content-length", "3"},
			field{"grpc-internal-encoding-request", "gzip"},
			field{"x-capability-id", pick(g, g.fleets...)}, field{"grpc-message-type", "x"},
			field{"x-original-path", "/x"}))
	default: // one less
		a.header = slices.Delete(a.header, 0, 1+g.IntN(2))
	}
}
