package questions

// MCP Apps (SEP-1865): pages that clients show for tools of servers. A client declares that it shows them as it
// declares which questions it answers.
const (
	AppsExtension = "io.modelcontextprotocol/ui"
	AppType       = "text/html;profile=mcp-app" // media type of an app
	// AppsMetadata is the metadata of a call whose client shows apps.
	AppsMetadata = "x-mcp-apps"
)
