package catalog

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// Version is a tool at an earlier time, for comparison with the current one.
type Version struct {
	Hash        toolschema.Hash
	Description string
	Schema      []byte // JSON Schema of its arguments
	Output      []byte // of its result; nil: it has none
	Extras      []byte // JSON of manifest.Extras; nil: it has none
}

// Versions stores the accepted versions of tools, which their hashes alone could not show. Errors mean that it does
// not respond.
type Versions interface {
	Save(ctx context.Context, capability string, versions map[string]Version) error
	// Load returns the stored version of each tool. It may be another one than the accepted one.
	Load(ctx context.Context, capability string, tools []string) (map[string]Version, error)
}

// maxVersion bounds the description and the schema of a stored version, in bytes. Larger tools have no comparison.
const maxVersion = 64 << 10

// versionsRound is the interval in which accepted versions are looked for.
const versionsRound = 2 * time.Second

// KeepVersions stores the accepted version of each tool as soon as the tool is known, and reads those of drifted tools
// for Change, until ctx ends.
func (c *Catalog) KeepVersions(ctx context.Context, to Versions) {
	saved := map[string]map[string]toolschema.Hash{} // by capability and tool
	for ctx.Err() == nil {
		recovery.Round("tool versions", func() {
			c.saveVersions(ctx, to, saved)
			c.readChanges(ctx, to)
		})
		signal.Wait(ctx, c.published, versionsRound)
	}
}

// saveVersions stores the accepted versions that saved lacks.
func (c *Catalog) saveVersions(ctx context.Context, to Versions, saved map[string]map[string]toolschema.Hash) {
	snapshot := *c.snapshot.Load()
	maps.DeleteFunc(saved, func(id string, _ map[string]toolschema.Hash) bool { return snapshot[id] == nil })
	for id, of := range snapshot {
		fresh := map[string]Version{}
		for i := range of.tools {
			t := &of.tools[i]
			if t.Drifted || t.Schema == nil || saved[id][t.Name] == t.Hash ||
				len(t.Description)+len(t.Schema.JSON())+len(t.Output.JSON())+t.Extras.Size() > maxVersion {
				continue
			}
			fresh[t.Name] = Version{t.Hash, t.Description, t.Schema.JSON(), t.Output.JSON(), t.Extras.JSON()}
		}
		if len(fresh) == 0 || to.Save(ctx, id, fresh) != nil {
			continue
		}
		if saved[id] == nil {
			saved[id] = map[string]toolschema.Hash{}
		}
		for name := range fresh {
			saved[id][name] = fresh[name].Hash
		}
	}
}

// AcceptedVersions returns the accepted versions of the tools of a capability that have drifted, as far as they are
// stored. What is stored is believed only if it has the accepted hash.
func (c *Catalog) AcceptedVersions(ctx context.Context, from Versions, capability string) map[string]Version {
	c.mu.Lock()
	e := c.entries[capability]
	var accepted map[string]toolschema.Hash
	if e != nil {
		accepted = e.accepted // replaced when it changes
	}
	c.mu.Unlock()
	tools, _ := c.Tools(capability)
	var drifted []string
	for i := range tools {
		if tools[i].Drifted {
			drifted = append(drifted, tools[i].Name)
		}
	}
	if len(drifted) == 0 {
		return nil
	}
	found, err := from.Load(ctx, capability, drifted)
	if err != nil {
		return nil
	}
	all := map[string]Version{}
	for tool, v := range found {
		if hash, known := accepted[tool]; known && v.hash() == hash {
			v.Hash = hash
			all[tool] = v
		}
	}
	return all
}

// hash returns the hash of what is stored; the zero value, which no tool has, of what is no version.
func (v *Version) hash() toolschema.Hash {
	t := manifest.Tool{Description: v.Description}
	var err error
	if t.Schema, err = toolschema.CompileLenient(v.Schema); err != nil {
		return toolschema.Hash{}
	}
	if len(v.Output) > 0 {
		if t.Output, err = toolschema.CompileLenient(v.Output); err != nil {
			return toolschema.Hash{}
		}
	}
	if len(v.Extras) > 0 && json.Unmarshal(v.Extras, &t.Extras) != nil {
		return toolschema.Hash{}
	}
	return t.Hash()
}
