package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Listener rejects a call in another dialect than that of its listener.
func Listener(c *filter.Call) *call.Refusal {
	if at := c.Client.At; at != nil && at.Dialect != call.Auto && at.Dialect != c.Info.Dialect {
		return tenant.RefuseAt(tenant.DialectPart)
	}
	return nil
}

// listenerSession puts a call into its listener's session. The backend learns it as it does that of a call whose
// message names none.
func listenerSession(c *filter.Call, own string) *call.Refusal {
	named, _ := c.Stream.Header(filter.SessionHeader)
	if c.Credential.Only != nil {
		named = c.Credential.Only.Session
	}
	for _, id := range [...]string{named, c.Info.Session} {
		if id != "" && id != own {
			return tenant.RefuseAt(tenant.SessionPart)
		}
	}
	if c.Stream.Contradicts(filter.SessionHeader) {
		return refusedTwoSessions
	}
	if c.Info.Session = own; named == "" {
		c.Stream.SetHeader(filter.SessionHeader, own)
	}
	return nil
}
