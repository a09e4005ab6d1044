package main

import "context"

// A step creates some files of a release from those of earlier steps.
type step struct {
	name string
	run  func(*release, context.Context) error
}

// steps lists the steps of a release in order.
var steps = []step{
	{"programs", (*release).makePrograms},
	{"completions and man pages", (*release).makeDocuments},
	{"archives", (*release).makeArchives},
	{"packages", (*release).makePackages},
	{"images", (*release).makeImages},
	{"the chart", (*release).makeChart},
	{"the formula", (*release).makeFormula},
	{"the public key", (*release).makePublicKey},
	{"the installer", (*release).makeInstaller},
	{"notes", (*release).makeNotes},
	{"SBOMs", (*release).makeSBOMs},
	{"provenance", (*release).makeProvenance},
	{"checksums", (*release).makeChecksums},
	{"signatures", (*release).makeSignatures},
}
