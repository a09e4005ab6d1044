package relay

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/capgate/capgate/gateway/relay/accept/http1"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// keep copies the request's headers, which are valid only while the shard is locked.
func (e *webEnd) keep(list *hpack.List) {
	all := e.keepAll(list, e.writer.few[:0])
	e.header = all[:0]
	for i := range all {
		switch f := &all[i]; f.Name {
		case ":method":
			e.method = f.Value
		case ":path":
			e.path = f.Value
		case ":authority":
			e.authority = f.Value
		default:
			e.header = append(e.header, *f)
		}
	}
}

// keepAll appends copies of the fields of a block.
func (e *webEnd) keepAll(list *hpack.List, fields []hpack.Field) []hpack.Field {
	size := 0
	for i := range list.Fields {
		size += len(list.Fields[i].Name) + len(list.Fields[i].Value)
	}
	e.headers += int32(size + headerBytes*len(list.Fields))
	var arena strings.Builder
	arena.Grow(size)
	keep := func(s string) string {
		at := arena.Len()
		arena.WriteString(s)
		return arena.String()[at:]
	}
	for i := range list.Fields {
		fields = append(fields, hpack.Field{Name: keep(list.Fields[i].Name), Value: keep(list.Fields[i].Value)})
	}
	return fields
}

// request returns the handler's request; nil means that the path is invalid. The relay has checked everything else,
// see checkRequest.
func (e *webEnd) request() *http.Request {
	target := http1.ParsePath(e.path, &e.target)
	if target == nil {
		return nil
	}
	header := makeHeader(e.header)
	e.header = nil // its memory is reused for the response
	req := http.Request{
		Method: e.method, URL: target, Proto: "HTTP/2.0", ProtoMajor: 2, Header: header, Host: e.authority,
		RequestURI: e.path, RemoteAddr: e.peer.RemoteAddr(), TLS: e.peer.TLS, Body: http.NoBody,
	}
	if cookies := header["Cookie"]; len(cookies) > 1 { // RFC 9113 §8.2.3
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if expect := header["Expect"]; len(expect) > 0 && hasToken(expect, "100-continue") {
		delete(header, "Expect")
		e.body.expected = !e.complete
	}
	if announced := header["Trailer"]; len(announced) > 0 || e.mayHaveTrailers() {
		req.Trailer = trailerNames(announced)
		delete(header, "Trailer")
	}
	if !e.complete {
		req.Body, req.ContentLength, e.body.trailer = &e.body, -1, req.Trailer
		if length := header["Content-Length"]; len(length) > 0 {
			req.ContentLength, _ = strconv.ParseInt(length[0], 10, 64) // see Stream.checkRequest
		}
	}
	if v, ok := e.value.(WebContext); ok {
		return req.WithContext(v.Within(&e.ctx))
	}
	return req.WithContext(&e.ctx)
}

// makeHeader returns a header of fields that the relay has checked.
func makeHeader(fields []hpack.Field) http.Header {
	header := make(http.Header, len(fields)+1) // a handler may add an id
	values := make([]string, len(fields))
	for i := range fields {
		f := &fields[i]
		name := canonicalName(f.Name)
		if before := header[name]; before != nil {
			header[name] = append(before, f.Value)
			continue
		}
		values[i] = f.Value
		header[name] = values[i : i+1 : i+1]
	}
	return header
}

// mayHaveTrailers reports whether the request has trailers, or its end was not received yet.
func (e *webEnd) mayHaveTrailers() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.requestEnd || len(e.trailer) > 0
}

// trailerNames returns the trailer of a request whose body has not been read (http.Request.Trailer). It is never nil,
// because unannounced trailers are added to the same map.
func trailerNames(announced []string) http.Header {
	trailer := http.Header{}
	for _, list := range announced {
		for name := range strings.SplitSeq(list, ",") {
			switch name = http.CanonicalHeaderKey(textproto.TrimString(name)); name {
			case "", "Transfer-Encoding", "Trailer", "Content-Length":
			default:
				trailer[name] = nil
			}
		}
	}
	return trailer
}

// validTrailers reports whether no trailer is a field that must be known before the body (RFC 9110 §6.5.1).
func validTrailers(fields []hpack.Field) bool {
	for i := range fields {
		if !validTrailer(fields[i].Name) {
			return false
		}
	}
	return true
}

// validTrailer reports whether a name in lower case is allowed in trailers. net/http rejects the same names.
func validTrailer(name string) bool {
	switch name {
	case "authorization", "cache-control", "connection", "content-encoding", "content-length", "content-range",
		"content-type", "expect", "host", "keep-alive", "max-forwards", "pragma", "proxy-authenticate",
		"proxy-authorization", "proxy-connection", "range", "realm", "te", "trailer", "transfer-encoding",
		"www-authenticate":
		return false
	}
	return !strings.HasPrefix(name, "if-")
}

// hasToken reports whether any of the lists contains a token.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for one := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(textproto.TrimString(one), token) {
				return true
			}
		}
	}
	return false
}
