package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger returns a log of lines in JSON or, for the format "text", of text.
func NewLogger(format string, level slog.Leveler, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
