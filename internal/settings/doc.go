// Package settings reads a configuration with the contents of all files that it names: keys, certificates, manifests,
// definitions. It starts nothing.
package settings
