package gatewaytest

// CancelMCP calls that of gateway.Gateway.
func (g *Gateway) CancelMCP(request string) { g.gateway.CancelMCP(request) }
