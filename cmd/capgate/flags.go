package main

import "flag"

// parseFlags parses args, with flags before, between and after the positional arguments, which it returns. After
// "--" all arguments are positional; "-" always is. Errors are those of fs.Parse, including flag.ErrHelp.
func parseFlags(fs *flag.FlagSet, args []string) (positional []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if parsed := len(args) - len(rest); parsed > 0 && args[parsed-1] == "--" {
			return append(positional, rest...), nil
		}
		if len(rest) == 0 {
			return positional, nil
		}
		positional, args = append(positional, rest[0]), rest[1:]
	}
}
