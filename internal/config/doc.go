// Package config parses the configuration file of the gateway from YAML into checked structs. It reports every
// problem of a file at once, each with its line and a correction.
//
// It reads neither files nor the environment. Only the command line imports it: every other package has a
// configuration struct of its own.
package config
