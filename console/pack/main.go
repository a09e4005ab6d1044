// Command pack copies a build of the console into console/dist, compressed; with -check it compares. `make console`
// and `make check-generated` run it.
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

func main() {
	check := flag.Bool("check", false, "change nothing, and fail if something would change")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack [-check] BUILD DIST")
		os.Exit(2)
	}
	for _, name := range []string{"console.js", "console.css"} {
		if err := pack(filepath.Join(flag.Arg(0), name), filepath.Join(flag.Arg(1), name+".gz"), *check); err != nil {
			fmt.Fprintln(os.Stderr, "pack:", err)
			os.Exit(1)
		}
	}
}

// pack compares uncompressed contents, because versions of Go compress differently.
func pack(from, to string, check bool) error {
	want, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if have, err := unpack(to); err == nil && bytes.Equal(have, want) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is not what console/src builds: run `make console` and commit", to)
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level
	if _, err := z.Write(want); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

func unpack(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
