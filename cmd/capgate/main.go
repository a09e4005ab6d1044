// Command capgate is the gateway, and the tools to test, check and call it.
package main

import (
	"os"

	"github.com/capgate/capgate/internal/cli"
)

func main() { os.Exit(cli.Main()) }
