package config

import "github.com/capgate/capgate/internal/toolset"

// ParseToolset parses the text of one toolset, as toolsets has it. name is that of its file, for errors.
func ParseToolset(name string, text []byte) (*toolset.Toolset, error) {
	d, of := new(Config).decoder(name), &toolset.Toolset{}
	if at, ok := d.Document(text, "a toolset", "it has name and tools"); ok {
		d.Decode(at, of)
	}
	return of, d.Err()
}
