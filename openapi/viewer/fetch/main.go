// Command fetch copies Swagger UI from npm's package into openapi/viewer/files; with -check it compares. `make
// viewer` and `make check-generated` run it, after tools/setup has installed the version that tools/node locks.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// taken are the files of the package; true: stored compressed.
var taken = map[string]bool{"swagger-ui-bundle.js": true, "swagger-ui.css": true, "LICENSE": false, "NOTICE": false,
	"swagger-ui-bundle.js.LICENSE.txt": false}

func main() {
	check := flag.Bool("check", false, "change nothing, and fail if something would change")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: fetch [-check] PACKAGE FILES")
		os.Exit(2)
	}
	for name, packed := range taken {
		if err := take(flag.Arg(0), flag.Arg(1), name, packed, *check); err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			os.Exit(1)
		}
	}
}

func take(from, to, name string, packed, check bool) error {
	want, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	to = filepath.Join(to, name)
	if packed {
		to += ".gz"
	}
	if have, err := content(to, packed); err == nil && bytes.Equal(have, want) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is not what the locked version has: run `make viewer` and commit", to)
	}
	if packed {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level
		if _, err := z.Write(want); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		want = b.Bytes()
	}
	return os.WriteFile(to, want, 0o644)
}

// content returns a file's uncompressed content, because versions of Go compress differently.
func content(name string, packed bool) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil || !packed {
		return text, err
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
