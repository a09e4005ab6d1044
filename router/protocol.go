package router

// Protocol is the protocol that the backends of a fleet speak, with the fleet's settings of it. Two protocols are
// compared deeply.
type Protocol interface {
	// Traits returns what does not depend on the settings.
	Traits() Traits
	// Request returns the request that a backend receives for a call of a tool.
	Request(tool string) Request
}

// Traits are the properties of a protocol that matter on the path of a call.
type Traits struct {
	Name        string // the value of the field protocol in the configuration
	Dialects    bool   // backends speak one of Selu's dialects
	OwnSessions bool   // calls without a session use one of their principal at the backend
	Durable     bool   // backends keep their sessions on disk
	Relayed     bool   // results are those of an MCP server
	Statuses    bool   // the errors of tools are statuses
	Listed      bool   // results of tools that stream are lists, as their schemas say
}

// Request is a request to a backend, as traces name it. The zero value is the call itself.
type Request struct {
	MCP    bool   // Method is one of the Model Context Protocol
	Method string // else package.Service/Method, or _OTHER if it is not known
	Tool   string // with MCP; "": the method has none
}

// selu is the protocol of capabilities.
type selu struct{}

// Traits implements Protocol.
func (selu) Traits() Traits { return Traits{Name: "selu", Dialects: true} }

// Request implements Protocol.
func (selu) Request(string) Request { return Request{} }

// Protocol returns the protocol that the backends speak.
func (f *Fleet) Protocol() Protocol { return f.cfg.protocol() }

func (c *FleetConfig) protocol() Protocol {
	if c.Protocol == nil {
		return selu{}
	}
	return c.Protocol
}
