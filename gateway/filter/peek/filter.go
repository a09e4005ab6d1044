package peek

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
	"github.com/capgate/capgate/internal/tenant"
)

// State is the state of the filter for a call.
type State struct {
	asked   bool          // the message was requested
	refusal *call.Refusal // of a message that had to be decompressed
}

// Filter reads the fields of the first message for routing and authorization.
type Filter struct {
	reader *Reader
	read   func(c *filter.Call, msg []byte) (filter.Peeked, *call.Refusal)
}

// With returns a Filter that parses messages with read.
func (r *Reader) With(read func(c *filter.Call, msg []byte) (filter.Peeked, *call.Refusal)) Filter {
	return Filter{r, read}
}

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	switch {
	case !s.asked:
		s.asked = true
		return filter.Read
	case c.Message.Missing:
		return c.Reject(filter.NoMessage)
	case c.Message.Compressed && f.reader.needless(c):
		return filter.Continue // it need not be decompressed
	case c.Message.Compressed:
		return f.unpack(c, s)
	case s.refusal != nil:
		return c.Reject(s.refusal)
	}
	m, refusal := f.read(c, c.Message.Data)
	if refusal != nil {
		return c.Reject(refusal)
	}
	c.SetPeeked(&m)
	return filter.Continue
}

// unpack makes the call wait until its message is decompressed.
func (f Filter) unpack(c *filter.Call, s *State) filter.Step {
	refusal := f.reader.start(c, s, c.Message.Data)
	if refusal != nil {
		return c.Reject(refusal)
	}
	return filter.Wait
}

// Done implements filter.Filter.
func (Filter) Done(*filter.Call, *State, *filter.Result) {}

// If is Filter for lists where not all calls have a message to read.
type If struct {
	Filter
	Wanted func(*filter.Call) bool
}

// Admit implements filter.Filter.
func (f If) Admit(c *filter.Call, s *State) filter.Step {
	if !f.Wanted(c) {
		return filter.Continue
	}
	return f.Filter.Admit(c, s)
}

// Await waits for the first message, which has no fields. Some clients take an early response for a broken stream.
type Await struct{}

// Admit implements filter.Filter.
func (Await) Admit(c *filter.Call, s *State) filter.Step {
	switch {
	case !s.asked:
		s.asked = true
		return filter.ReadAny
	case c.Message.Missing:
		return c.Reject(filter.NoMessage)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (Await) Done(*filter.Call, *State, *filter.Result) {}

// ReadInvoke returns the fields of the request of a tool call.
func ReadInvoke(c *filter.Call, msg []byte) (m filter.Peeked, refusal *call.Refusal) {
	readKey := dialect.ReadKey
	if c.Info.Dialect == call.Legacy {
		readKey = dialect.ReadLegacyKey
	}
	key, err := readKey(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, filter.Malformed)
	}
	if refusal := nameUser(c, filter.View(key.User)); refusal != nil {
		return filter.Peeked{}, refusal
	}
	c.Info.Tool = c.Keep(filter.View(key.Tool))
	c.Info.Session = c.Keep(filter.View(key.Session))
	m = filter.Peeked{Read: true, Capability: filter.View(key.Capability), Args: key.Args, Config: key.Config,
		Thread: key.Thread}
	if c.Info.Dialect == call.Legacy {
		m.Legacy = msg
	}
	return m, nil
}

// ReadDownload returns the artifact of a download's request.
func ReadDownload(_ *filter.Call, msg []byte) (m filter.Peeked, refusal *call.Refusal) {
	id, err := dialect.ReadArtifactID(msg)
	if err != nil {
		return filter.Peeked{}, strictproto.Refuse(err, rejectedDownload)
	}
	return filter.Peeked{Artifact: id}, nil
}

// nameUser applies a user named by the message, as far as the same header would be accepted.
func nameUser(c *filter.Call, user string) *call.Refusal {
	if at := c.Client.At; at != nil && at.User != "" && user != "" && user != at.User {
		return tenant.RefuseAt(tenant.UserPart)
	}
	if user == "" || c.Credential.Asserts&tenant.User == 0 {
		return nil
	}
	if said, _ := c.Stream.Header(filter.UserHeader); said != "" && said != user {
		return filter.TwoIdentities
	}
	_, refusal := tenant.Identity{}.Assert(tenant.Credentials{User: user}, tenant.User)
	if refusal == nil {
		c.Info.User = c.Keep(user)
	}
	return refusal
}

var (
	rejectedDownload = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed DownloadOutputArtifactRequest"}
)
