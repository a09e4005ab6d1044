package relay

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// checkRequest parses the pseudo-header fields, and reports whether the request is well-formed (RFC 9113 §8.2,
// §8.3.1).
func (s *Stream) checkRequest() bool {
	var seen [nameContentType]bool
	var regular bool
	var once uint32 // seen names of oneEach
	authorityAt, hostAt := -1, -1
	for i := range s.head.Fields {
		f := &s.head.Fields[i]
		if f.Tag&tagBad != 0 || f.Tag&tagNoHost != 0 && !s.Peer().OnSocket() {
			return false
		}
		name := f.Tag & nameMask
		if bit := oneEach & (1 << name); once&bit != 0 {
			s.repeated = f.Name
		} else {
			once |= bit
		}
		if f.Tag&tagPseudo != 0 {
			if regular || name == nameStatus || seen[name] {
				return false
			}
			seen[name] = true
		} else {
			regular = true
		}
		switch name {
		case nameMethod:
			s.method = f.Value
		case namePath:
			s.path = f.Value
		case nameAuthority:
			s.authority, authorityAt = f.Value, i
		case nameContentType:
			s.grpc = s.grpc || f.Tag&tagGRPC != 0 && !s.sh.relay.cfg.WebOnly
			s.proto = f.Tag&tagProto != 0
		case nameHost:
			if hostAt >= 0 {
				return false
			}
			hostAt = i
		case nameContentLength:
			if !s.down.setLength(f.Value) {
				return false
			}
		}
	}
	if !s.setAuthority(authorityAt, hostAt) {
		return false
	}
	if !seen[nameMethod] || !seen[namePath] || !seen[nameScheme] || s.method == "CONNECT" {
		return false // CONNECT is not supported, and has other rules
	}
	return (strings.HasPrefix(s.path, "/") || s.path == "*" && s.method == "OPTIONS") && s.down.lengthFits()
}

// setAuthority sets the authority that the backend receives. at and hostAt are the positions of :authority and host in
// the request's fields, or -1.
func (s *Stream) setAuthority(at, hostAt int) bool {
	host := ""
	if hostAt >= 0 {
		f := &s.head.Fields[hostAt]
		if host = s.Peer().Authority(f.Value); host != f.Value {
			*f = s.sh.consts.host
		}
	}
	if at < 0 {
		s.authority = s.Peer().Authority(host)
		s.head.Fields = slices.Insert(s.head.Fields, 0, s.sh.interner.Intern(":authority", s.authority))
		return true
	}
	if sent := s.authority; s.Peer().Authority(sent) != sent {
		s.authority, s.head.Fields[at] = accept.DefaultAuthority, s.sh.consts.authority
	}
	return hostAt < 0 || host == s.authority // otherwise a request could be routed by one and served by the other
}

// setLength sets the content-length. It returns false if it is invalid or repeated.
func (h *half) setLength(value string) bool {
	n, err := strconv.ParseUint(value, 10, 62)
	if err != nil || h.length >= 0 {
		return false
	}
	h.length = int64(n)
	return true
}

// lengthFits reports whether the DATA received so far is consistent with content-length.
func (h *half) lengthFits() bool {
	return h.length < 0 || h.got == h.length || h.got < h.length && !h.gotEnd
}

// checkResponse reports whether response headers or trailers are well-formed. It returns :status (empty in trailers)
// and the gRPC status (-1 if there is none).
func checkResponse(list *hpack.List) (status string, grpc int, ok bool) {
	grpc = -1
	for i := range list.Fields {
		f := &list.Fields[i]
		switch {
		case f.Tag&tagBad != 0:
			return "", -1, false
		case f.Tag&tagPseudo != 0:
			if i != 0 || f.Tag&nameMask != nameStatus || !isStatus(f.Value) {
				return "", -1, false
			}
			status = f.Value
		case f.Tag&nameMask == nameGRPCStatus:
			n, err := strconv.ParseUint(f.Value, 10, 31)
			if err != nil {
				n = codeUnknown
			}
			grpc = int(n)
		}
	}
	return status, grpc, true
}

func isStatus(v string) bool {
	return len(v) == 3 && v[0] >= '1' && v[0] <= '9' && v[1] >= '0' && v[1] <= '9' && v[2] >= '0' && v[2] <= '9'
}

// responseLength sets the content-length of a response. A response without a body may have that of another response.
func (s *Stream) responseLength(list *hpack.List, status string) bool {
	if s.method == "HEAD" || status == "304" {
		return true
	}
	for i := range list.Fields {
		if f := &list.Fields[i]; f.Tag&nameMask == nameContentLength && !s.up.setLength(f.Value) {
			return false
		}
	}
	return true
}

// codeOfEnd returns the gRPC status of an ended response. grpc is its own status, or -1.
func codeOfEnd(status string, grpc int) uint32 {
	switch {
	case grpc >= 0:
		return uint32(grpc)
	case status != "":
		return codeOfHTTP(status)
	}
	return codeUnknown
}

// codeOfHTTP returns the gRPC status of a response without one (gRPC's "HTTP to gRPC Status Code Mapping").
func codeOfHTTP(status string) uint32 {
	switch status {
	case "400", "431":
		return codeInternal
	case "401":
		return codeUnauthenticated
	case "403":
		return codePermissionDenied
	case "404":
		return codeUnimplemented
	case "429", "502", "503", "504":
		return codeUnavailable
	}
	return codeUnknown
}
