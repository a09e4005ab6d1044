// Command generate writes what follows from the table of keys of internal/redisstore: docs/run/keys.md, and the keys
// that deploy/redis/users.acl grants to gateways without the admin API. `make generate` runs it at the root of the
// repository.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/generated"
	"github.com/capgate/capgate/internal/redisstore"
)

const (
	source = "internal/redisstore/keys.md"
	page   = "docs/run/keys.md"
	users  = "deploy/redis/users.acl"
)

func main() { generated.Main(run) }

// run writes the files below the root of the repository, or compares them.
func run(root string, check bool) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	return generated.Put(root, files, check)
}

// generate returns the generated files by their names.
func generate(root string) (map[string][]byte, error) {
	table, err := os.ReadFile(filepath.Join(root, source)) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, err
	}
	acl, err := os.ReadFile(filepath.Join(root, users)) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(acl, []byte("user capgate-serving on >CHANGE_ME_2 "))
	_, after, found := bytes.Cut(after, []byte(" &cg:*"))
	if !found {
		return nil, fmt.Errorf("%s has no user capgate-serving", users)
	}
	granted := strings.Join(grants(redisstore.Rows(string(table))), " ")
	return map[string][]byte{
		page:  slices.Concat([]byte(preamble), table),
		users: slices.Concat(before, []byte("user capgate-serving on >CHANGE_ME_2 "+granted+" &cg:*"), after),
	}, nil
}

// grants returns the patterns of keys that a gateway without the admin API may write, or only read.
func grants(rows []redisstore.Row) (all []string) {
	readOnly := map[string]bool{}
	for _, r := range rows {
		readOnly[tagOf(r)] = readOnly[tagOf(r)] || r.ReadOnly
	}
	for _, r := range rows {
		one := "~cg:" + tagOf(r)
		switch {
		case r.Type == "channel":
			continue
		case r.ReadOnly:
			one = "%R" + one
		case readOnly[tagOf(r)]:
			one = "~cg:" + r.Glob()
		}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// tagOf returns the pattern of Redis for all keys with the hash tag of a row.
func tagOf(r redisstore.Row) string {
	tag, rest, _ := strings.Cut(r.Glob(), "}")
	if tag += "}"; rest != "" {
		tag += ":*"
	}
	return tag
}

const preamble = "<!-- Generated from " + source + ". Run `make generate` instead of editing. -->\n\n"
