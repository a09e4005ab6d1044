package config

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestNoTextNamesARemovedField: neither errors of the gateway, nor docs, nor alerts name a field that was removed.
func TestNoTextNamesARemovedField(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"../../gateway", "../../health", "../../internal", "../../policy", "../../router",
		"../../docs", "../../deploy"} {
		check.Must(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "removed.go") {
				return err
			}
			var text string
			switch filepath.Ext(path) {
			case ".go", ".md", ".yml", ".yaml", ".json", ".tpl":
				source, err := os.ReadFile(path)
				check.Must(t, err)
				if text = string(source); filepath.Ext(path) == ".go" {
					text = literals(source)
				}
			}
			for field := range removed {
				if field = strings.TrimPrefix(field, "fleets[]."); strings.Contains(field, ".") &&
					!strings.HasSuffix(field, "webhook") && strings.Contains(text, field) {
					t.Errorf("%s names %s", path, field)
				}
			}
			return nil
		}))
	}
}

// literals returns the string literals of a Go file.
func literals(source []byte) string {
	var all strings.Builder
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, 0)
	for {
		switch _, kind, text := s.Scan(); kind {
		case token.EOF:
			return all.String()
		case token.STRING:
			all.WriteString(text + "\n")
		}
	}
}
