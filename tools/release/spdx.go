package main

import "regexp"

const (
	noAssertion = "NOASSERTION"
	license     = "Apache-2.0"            // of capgate
	spdxType    = "application/spdx+json" // media type
)

// An spdx is the part of an SPDX 2.3 document that a release needs.
type spdx struct {
	Version   string `json:"spdxVersion"`
	License   string `json:"dataLicense"`
	ID        string `json:"SPDXID"`
	Name      string `json:"name"`
	Namespace string `json:"documentNamespace"`
	Creation  struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	} `json:"creationInfo"`
	Packages  []spdxPackage  `json:"packages"`
	Relations []spdxRelation `json:"relationships"`
}

// An spdxPackage is a file of a release, or a component of it. The files in it are not listed.
type spdxPackage struct {
	ID        string    `json:"SPDXID"`
	Name      string    `json:"name"`
	Version   string    `json:"versionInfo"`
	Purpose   string    `json:"primaryPackagePurpose"`
	Location  string    `json:"downloadLocation"`
	Analyzed  bool      `json:"filesAnalyzed"`
	Concluded string    `json:"licenseConcluded"`
	Declared  string    `json:"licenseDeclared"`
	Copyright string    `json:"copyrightText"`
	Sums      []spdxSum `json:"checksums,omitempty"`
	Refs      []spdxRef `json:"externalRefs,omitempty"`
}

type spdxSum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// notIDs matches what an SPDX id cannot contain.
var notIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func spdxID(c component) string {
	return "SPDXRef-" + notIDs.ReplaceAllString(c.kind+"-"+c.name+"-"+c.version, "-")
}
