package gatewaytest

import "github.com/capgate/capgate/gateway/frontdoor/mcp"

// CancelMCP calls gateway.Gateway.CancelMCP.
func (g *Gateway) CancelMCP(request string) { g.gateway.CancelMCP(request) }

// SetMCP changes the settings of MCP.
func (g *Gateway) SetMCP(s mcp.Settings) { g.gateway.SetMCP(s) }
