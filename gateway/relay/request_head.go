package relay

import "github.com/capgate/capgate/gateway/relay/hpack"

// requestHead holds the state of a stream that belongs to its request. It is released when the response starts.
type requestHead struct {
	head      *hpack.List
	names     nameSet // of head, when the Handler reads it; 0 means not computed
	twice     nameSet // those of names that may be repeated
	edits     []edit  // changes to head
	edited    nameSet // names of edits
	method    string
	path      string
	authority string
	repeated  string
	upstream  *Upstream
	next      *Stream // in its pool's queue
	latest    int64   // latest deadline; 0 means none
	messageBy int64   // deadline of the first message
	sentAt    int64   // time of the last request to an upstream, on the shard's clock
	proto     bool    // content-type is application/grpc or application/grpc+proto
	accepted  bool    // the upstream has replenished the window of the request
	doubts    bool    // REFUSED_STREAM from the upstream does not prove that the call did not start
	alone     bool    // only one message is allowed
}

// commonEdits is the number of header edits that suffices for most requests.
const commonEdits = 8

// newRequest returns the state of a request with its headers.
func (sh *shard) newRequest(head *hpack.List) *requestHead {
	if n := len(sh.requests); n > 0 {
		r := sh.requests[n-1]
		sh.requests = sh.requests[:n-1]
		r.head = head
		return r
	}
	return &requestHead{head: head, edits: make([]edit, 0, commonEdits)}
}

// dropHead drops the request's headers and the Handler's changes to them, so that a long-lived stream does not hold
// them.
func (s *Stream) dropHead() {
	r := s.requestHead
	if r == nil {
		return
	}
	s.requestHead = nil
	s.sh.freeList(r.head)
	if len(s.sh.requests) < keepStreams {
		clear(r.edits)
		*r = requestHead{edits: r.edits[:0]}
		s.sh.requests = append(s.sh.requests, r)
	}
}

// edit sets a header for the upstream, or drops it if its value is unset.
type edit struct {
	name, value string
	drop        bool
}

// Path returns the request's :path exactly as it was sent.
func (s *Stream) Path() string {
	if s.requestHead == nil {
		return ""
	}
	return s.path
}

// Authority returns the request's :authority, or its Host, or localhost if it has neither.
func (s *Stream) Authority() string {
	if s.requestHead == nil {
		return ""
	}
	return s.authority
}

// Header returns the first value of a request header. The name must be in lower case. After the response has started,
// there are no headers.
func (s *Stream) Header(name string) (string, bool) {
	if !s.mayHave(name) {
		return "", false
	}
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// AppendHeader appends all values of a request header to b, as one list (RFC 9110 §5.3). The name must be in lower
// case.
func (s *Stream) AppendHeader(b []byte, name string) []byte {
	if !s.mayHave(name) {
		return b
	}
	found := false
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Name == name {
			if found {
				b = append(b, ',')
			}
			b, found = append(b, f.Value...), true
		}
	}
	return b
}

// Contradicts reports whether a request header is present more than once, with different values.
func (s *Stream) Contradicts(name string) bool {
	if !s.mayHave(name) || s.twice&setOf(name) == 0 {
		return false
	}
	first, found := "", false
	for i := range s.head.Fields {
		switch f := &s.head.Fields[i]; {
		case f.Name != name:
		case found && f.Value != first:
			return true
		default:
			first, found = f.Value, true
		}
	}
	return false
}

// Repeated returns the name of a repeated request header that gRPC allows only once: grpc-encoding, grpc-timeout, te
// or content-type. It is empty if there is none.
func (s *Stream) Repeated() string {
	if s.requestHead == nil {
		return ""
	}
	return s.repeated
}

// Proto reports whether content-type is exactly application/grpc or application/grpc+proto.
func (s *Stream) Proto() bool { return s.requestHead != nil && s.proto }

// SetHeader sets a header for the upstream, in place of the client's. The last change of a header applies.
func (s *Stream) SetHeader(name, value string) { s.edit(edit{name: name, value: value}) }

// DropHeader removes a request header for the upstream, if there is one.
func (s *Stream) DropHeader(name string) {
	if s.mayHave(name) || s.requestHead != nil && s.edited&setOf(name) != 0 {
		s.edit(edit{name: name, drop: true})
	}
}

func (s *Stream) edit(e edit) {
	if s.requestHead == nil {
		return
	}
	if old := s.editOf(e.name); old != nil {
		*old = e
		return
	}
	s.edits = append(s.edits, e)
	s.edited |= setOf(e.name)
}

// editOf returns the change to a header, or nil.
func (s *Stream) editOf(name string) *edit {
	if s.edited&setOf(name) == 0 {
		return nil
	}
	for i := range s.edits {
		if s.edits[i].name == name {
			return &s.edits[i]
		}
	}
	return nil
}
