package settings

import (
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Problems takes an error apart.
func Problems(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, Problems(e)...)
		}
		return all
	}
	var of strictyaml.Errors
	if errors.As(err, &of) {
		all := make([]error, len(of))
		for i := range of {
			all[i] = of[i]
		}
		return all
	}
	return []error{err}
}

// placed adds the positions in the configuration to problems with files.
func placed(cfg *config.Config, problems []error) []error {
	for i, err := range problems {
		var of fileError
		if !errors.As(err, &of) {
			continue
		}
		if at, named := cfg.Named[of.name]; named {
			problems[i] = strictyaml.Error{File: at.File, Line: at.Line, Text: err.Error()}
		}
	}
	return problems
}

// fileError is a problem with a file; its text contains the file's name.
type fileError struct {
	name string
	error
}

func (e fileError) Unwrap() error { return e.error }

// Wrong returns an error about a file, whose name the text contains. Problems have its place in the configuration.
func (p Files) Wrong(name, format string, args ...any) error { return wrongFile(name, format, args...) }

func wrongFile(name, format string, args ...any) error {
	return fileError{name, fmt.Errorf(format, args...)}
}
