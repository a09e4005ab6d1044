package main

import (
	"context"
	"encoding/json"
	"runtime"
)

const provenanceFile = "provenance.intoto.json"

// A digest maps hash algorithms to hashes of content.
type digest map[string]string

// A resource is a file or another input of a build.
type resource struct {
	Name   string `json:"name,omitempty"`
	URI    string `json:"uri,omitempty"`
	Digest digest `json:"digest,omitempty"`
}

// A statement is an in-toto statement with the provenance of SLSA 1.0.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// A provenance describes the inputs and the steps of a build. It contains no times and no id of the run, so that two
// builds are equal.
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// makeProvenance writes the provenance statement about all files so far.
func (r *release) makeProvenance(context.Context) error {
	names, err := r.files()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: digest{"sha256": sum}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = project + "/tree/main/tools/release"
	d.ExternalParameters = map[string]string{"version": r.version}
	d.ResolvedDependencies = []resource{
		{URI: "git+" + project + "@refs/tags/" + r.version, Digest: digest{"gitCommit": r.commit}},
		{URI: "pkg:golang/stdlib@" + runtime.Version()[len("go"):]},
	}
	s.Predicate.RunDetails.Builder.ID = project + "/tree/main/tools/release"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write(provenanceFile, append(text, '\n'))
}
