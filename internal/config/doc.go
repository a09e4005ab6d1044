// Package config is the configuration file of the gateway: YAML in, checked
// structs out. Every problem of a file is reported at once, each with its line
// and what would be right.
//
// It reads neither files nor the environment, and nothing but the command line
// imports it: every other package has a configuration struct of its own.
package config
