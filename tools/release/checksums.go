package main

import (
	"bytes"
	"context"
	"fmt"
)

const checksumsFile = "checksums.txt"

// makeChecksums writes the SHA-256 of every file, as sha256sum --check reads them.
func (r *release) makeChecksums(context.Context) error {
	names, err := r.files()
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s  %s\n", sum, name)
	}
	return r.write(checksumsFile, all.Bytes())
}
