package telemetry

import (
	"io"
	"log/slog"
)

// LogConfig configures the gateway's log.
type LogConfig struct {
	// Least level of the lines.
	Level slog.Level `yaml:"level" default:"info"`
	// Format of the lines.
	Format string `yaml:"format" enum:"text,json" default:"json" restart:"yes"`
}

// NewLogger returns a log of lines in JSON or, for the format "text", of text.
func NewLogger(format string, level slog.Leveler, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
