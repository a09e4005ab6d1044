package registration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
)

const (
	// manifestName is the name of a backend's manifest in errors.
	manifestName = "manifest.yaml"
	// maxProblems and maxProblem limit the text of a refusal, which must fit into headers. maxProblem is in bytes.
	maxProblems, maxProblem = 5, 300
	// maxManifest bounds the memory of a parsed manifest, in bytes. 1,000 tools with ten described arguments each take
	// 20 MiB.
	maxManifest = 32 << 20
)

// ReadManifest returns the capability of a manifest, or its problems.
func ReadManifest(text string) (capability string, refusal *call.Refusal) {
	m, refusal := ParseManifest(text)
	if refusal != nil {
		return "", refusal
	}
	return m.ID, nil
}

// ParseManifest parses a manifest. Its problems are a refusal.
func ParseManifest(text string) (m *manifest.Manifest, refusal *call.Refusal) {
	m, err := manifest.ParseWithin(manifestName, []byte(text), maxManifest)
	if err == nil {
		return m, nil
	}
	refusal = &call.Refusal{Kind: call.InvalidArgument, Reason: "MANIFEST_INVALID",
		Metadata: map[string]string{"file": manifestName}}
	var all strictyaml.Errors
	if !errors.As(err, &all) {
		refusal.Message = untrusted.Clip(err.Error(), maxProblem)
		return nil, refusal
	}
	first := all[0]
	refusal.Metadata["line"], refusal.Metadata["field"], refusal.Metadata["reason"] = strconv.Itoa(first.Line),
		untrusted.Clip(first.Path, maxProblem), untrusted.Clip(first.Text, maxProblem)
	var lines []string
	for i, problem := range all {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		lines = append(lines, untrusted.Clip(problem.Error(), maxProblem))
	}
	refusal.Message = strings.Join(lines, "; ")
	return nil, refusal
}
