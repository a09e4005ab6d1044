package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"
)

// An entry is a file of an archive.
type entry struct {
	name string // in the archive
	from string // path
	mode int64
}

// archive returns the name of the archive for a platform.
func (r *release) archive(p platform) string {
	return "capgate_" + r.number() + "_" + p.system + "_" + p.arch + ".tar.gz"
}

// makeArchives packs the programs of each platform with their documents.
func (r *release) makeArchives(context.Context) error {
	for _, p := range r.platforms {
		if err := r.pack(p); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the archive for a platform.
func (r *release) pack(p platform) error {
	f, err := os.Create(r.file(r.archive(p)))
	if err != nil {
		return err
	}
	err = writeArchive(f, r.entries(p), r.date)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// entries returns the files of the archive for a platform.
func (r *release) entries(p platform) (all []entry) {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "capgate.example.yaml"} {
		all = append(all, entry{name, filepath.Join(r.source, name), 0o644})
	}
	for _, name := range programs {
		all = append(all, entry{name, r.program(p, name), 0o755})
	}
	return append(all, r.documentEntries("completions/", "man/")...)
}

// documentEntries returns the completions and the man pages, in the given directories of an archive.
func (r *release) documentEntries(completionDir, manDir string) (all []entry) {
	for _, shell := range []string{"bash", "fish", "zsh"} {
		name := completions[shell]
		all = append(all, entry{completionDir + name, filepath.Join(r.documents(), "completions", name), 0o644})
	}
	for _, m := range manPages {
		all = append(all, entry{manDir + m.file(), filepath.Join(r.documents(), "man", m.file()), 0o644})
	}
	return all
}

// writeArchive writes a compressed tar archive. All files belong to root and have the same time.
func writeArchive(w io.Writer, entries []entry, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		content, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		head := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(content)), ModTime: date,
			Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}
