// Package config parses the configuration file of the gateway from YAML into checked structs. It reports every
// problem of a file at once, each with its line and a correction.
//
// A field of the file is a field of a struct, here or in the package that uses it: its tags have name, default and
// bounds, its comment is its documentation. `make generate` makes schema.json and docs/run/configuration.md of them.
//
// It reads neither files nor the environment. Only the command line imports it: every other package has a
// configuration struct of its own.
package config
