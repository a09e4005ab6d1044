package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
)

// manifestFile is the name that a capability's manifest has in its directory.
const manifestFile = "manifest.yaml"

// manifestsIn returns the manifests that a path names: a file; a directory with a
// manifest.yaml; or a directory of such directories, and of files *.yaml.
func manifestsIn(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		var of *os.PathError
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, wrongFile(path, "%s: cannot be read: %w%s", path, err, neighbour(path, err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	if own := filepath.Join(path, manifestFile); exists(own) {
		return []string{own}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, wrongFile(path, "%s: cannot be read: %w", path, err)
	}
	var files []string
	for _, e := range entries {
		switch name := filepath.Join(path, e.Name()); {
		case filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml":
			files = append(files, name)
		case exists(filepath.Join(name, manifestFile)):
			files = append(files, filepath.Join(name, manifestFile))
		}
	}
	if len(files) == 0 {
		return nil, wrongFile(path, "%s: contains no manifests; want %s in a capability's directory, or "+
			"files *.yaml", path, manifestFile)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ReadManifests reads every manifest of some paths. The error has every problem; two
// manifests of one id are one.
func ReadManifests(paths []string, files Files) ([]*manifest.Manifest, error) {
	var all []*manifest.Manifest
	var problems []error
	from := map[string]string{} // id → file
	for _, path := range paths {
		names, err := manifestsIn(path)
		if err != nil {
			problems = append(problems, err)
		}
		for _, name := range names {
			m, err := readManifest(name, files)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			if first, twice := from[m.ID]; twice {
				problems = append(problems, fmt.Errorf("%s: id: %s is already the id of %s", name, m.ID, first))
			}
			from[m.ID] = name
			all = append(all, m)
		}
	}
	return all, errors.Join(problems...)
}

func readManifest(name string, files Files) (*manifest.Manifest, error) {
	data, err := files.Read(name)
	if err != nil {
		return nil, err
	}
	return manifest.Parse(name, data)
}

// readManifests reads the manifests that fleets name, and those in the default places. An unchanged manifest keeps its
// identity.
func (s *Settings) readManifests(before *Settings) (problems []error) {
	s.Manifests, s.found = map[string]*manifest.Manifest{}, map[string]string{}
	for _, path := range s.Config.Manifests {
		names, err := s.Files.list(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("manifests: %w", err))
		}
		for _, name := range names {
			m, err := s.readManifest(name, before)
			switch {
			case err != nil:
				problems = append(problems, err)
			case s.found[m.ID] != "" && s.found[m.ID] != name:
				problems = append(problems, fmt.Errorf("%s: id: %s is already the id of %s", name, m.ID, s.found[m.ID]))
			default:
				s.found[m.ID] = name
			}
		}
	}
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		if f.ManifestFile != "" {
			if _, err := s.readManifest(f.ManifestFile, before); err != nil {
				problems = append(problems, err)
			}
		}
		if m := s.ManifestOf(f); m != nil {
			problems = append(problems, misfits(f, s.manifestFile(f), m)...)
		}
	}
	return append(problems, s.ambiguousTools()...)
}

// readManifest reads one, once.
func (s *Settings) readManifest(name string, before *Settings) (*manifest.Manifest, error) {
	if m := s.Manifests[name]; m != nil {
		return m, nil
	}
	m, err := readManifest(name, s.Files)
	if err != nil {
		return nil, err
	}
	if before != nil && before.Manifests[name] != nil && s.Files.agree(before.Files, name) {
		m = before.Manifests[name]
	}
	s.Manifests[name] = m
	return m, nil
}

// ManifestOf returns a fleet's: the one that it names, or the one that was found for it; nil if
// there is neither.
func (s *Settings) ManifestOf(f *config.Fleet) *manifest.Manifest {
	return s.Manifests[s.manifestFile(f)]
}

func (s *Settings) manifestFile(f *config.Fleet) string {
	return cmp.Or(f.ManifestFile, s.found[f.Capability])
}

// maxMCPName is the length of the longest name of a tool over MCP, in bytes.
const maxMCPName = 128

// ambiguousTools returns the tools that two fleets without a prefix have.
func (s *Settings) ambiguousTools() (problems []error) {
	owners := map[string]string{}
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		m := s.ManifestOf(f)
		if m == nil || f.ToolPrefix() != "" {
			continue
		}
		for j := range m.Tools {
			name := m.Tools[j].Name
			if other := owners[name]; other != "" {
				problems = append(problems, fmt.Errorf("fleet %s: mcp: name: none is not possible: %s also has a "+
					"tool %s, and its names have no prefix either", f.Capability, other, name))
			}
			owners[name] = f.Capability
		}
	}
	return problems
}

// misfits returns the conflicts between a fleet's manifest and its settings.
func misfits(f *config.Fleet, file string, m *manifest.Manifest) (problems []error) {
	wrong := func(format string, args ...any) { // position of the manifest in the configuration, if any
		problems = append(problems, wrongFile(file, "fleet "+f.Capability+": "+format, args...))
	}
	if m.ID != f.Capability {
		wrong("manifest: %s belongs to the capability %s", file, m.ID)
	}
	if f.Validate && !m.Dynamic && len(m.Tools) == 0 {
		wrong("validate_arguments: %s has no tools, so there are no schemas to check arguments against; remove it",
			file)
	}
	prefix := f.ToolPrefix()
	for i := range m.Tools {
		switch name := m.Tools[i].Name; {
		case prefix == "" && strings.Contains(name, "__"):
			wrong("mcp: name: none is not possible: the tool %s has two underscores in a row, at which "+
				"MCP names are split", name)
		case len(prefix)+len("__")+len(name) > maxMCPName:
			wrong("mcp: the name of the tool %.40s… would have more than %d bytes with the prefix %s; give the "+
				"fleet a shorter mcp.name", name, maxMCPName, prefix)
		}
	}
	if f.Own.Discovery && !m.Dynamic {
		wrong("discovery: %s does not have tool_source: dynamic, so tools are not discovered; remove it", file)
	}
	return problems
}
