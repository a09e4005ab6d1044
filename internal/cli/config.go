package cli

import (
	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/config"
)

const schemaHelp = `Editors check and complete configurations with it. A file names it in its first line:

  # yaml-language-server: $schema=` + config.SchemaURL

// newConfigCommand returns the command capgate config.
func newConfigCommand(std stdio) *cobra.Command {
	return parent("config", "describe the configuration", "", &cobra.Command{
		Use: "schema", Short: "print the JSON Schema of the configuration", Long: schemaHelp,
		RunE: func(*cobra.Command, []string) error {
			_, err := std.out.Write(config.Schema())
			return err
		},
	})
}
