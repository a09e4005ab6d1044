package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/capgate/capgate/internal/tenant"
)

const keysUsage = `Usage: capgate keys new [flags]

Makes an API key, which is printed on standard output and kept nowhere, and on standard
error what the configuration needs to know of it: its id, and a hash of its secret.

Flags:
`

func runKeys(_ context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("keys", flag.ContinueOnError)
	file := fs.String("pepper-file", "", "the configuration's pepper_file, if it has one")
	words, status, ok := parseLine(fs, args, 1, keysUsage, std)
	if !ok {
		return status
	}
	if len(words) != 1 || words[0] != "new" {
		return wrongLine(fs, fmt.Errorf("want: new"), std)
	}
	var pepper []byte
	if *file != "" {
		var err error
		if pepper, err = readPepper(*file, prints{}); err != nil {
			fmt.Fprintf(std.err, "capgate keys: %v\n", err)
			return 1
		}
	}
	newKey(std.out, std.err, pepper)
	return 0
}

func newKey(secretly, openly io.Writer, pepper []byte) {
	id, secret := tenant.NewCredential()
	fmt.Fprintln(secretly, tenant.Credential(id, secret))
	fmt.Fprintf(openly, "# of the tenant's keys in the configuration:\n- {id: %s, hash: \"%s\"}\n", id, tenant.HashOf(secret, pepper))
}
