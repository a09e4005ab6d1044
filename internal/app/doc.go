// Package app builds a gateway from settings, reloads it, runs it and closes it.
package app
