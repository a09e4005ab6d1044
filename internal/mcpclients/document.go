package mcpclients

import (
	"net/http"
	"sync"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Path is the path of the document at both ports.
const Path = "/docs/clients.json"

// placeholder stands for the URL of MCP in the entries of the document.
const placeholder = "https://capgate.invalid/mcp"

// shown is a client in the document.
type shown struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	File  string `json:"file"`
	Open  string `json:"open"`  // the file's text for a gateway that needs no key
	Keyed string `json:"keyed"` // the file's text for one that needs a key
}

// document returns the entries of all clients, as capgate link prints them, in JSON. The page that shows them replaces
// the member placeholder by the URL.
var document = sync.OnceValues(func() ([]byte, error) {
	var doc struct {
		Placeholder string  `json:"placeholder"`
		Clients     []shown `json:"clients"`
	}
	doc.Placeholder = placeholder
	for _, c := range All() {
		open, err := c.Added(Entry{URL: placeholder, Name: "capgate"}, nil)
		if err != nil {
			return nil, err
		}
		keyed, err := c.Added(Entry{URL: placeholder, Name: "capgate", Key: true}, nil)
		if err != nil {
			return nil, err
		}
		doc.Clients = append(doc.Clients, shown{c.Name, c.Title, c.File, string(open), string(keyed)})
	}
	return plainjson.Marshal(doc)
})

// Serve is the handler of the document. It is the same for all callers.
func Serve(w http.ResponseWriter, _ *http.Request) {
	text, err := document()
	if err != nil {
		http.Error(w, "the entries cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // the client may be gone; there is no way to report it
}
