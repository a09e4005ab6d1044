package weather

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	defaultDays = 7
	maxDays     = 14
)

// A tool takes JSON arguments and returns a result. Its error tells the calling agent what to change.
type tool func(ctx context.Context, args []byte) (result, error)

// result is the result of a tool: whole for Invoke, and in one or more parts for StreamInvoke.
type result struct {
	whole any
	parts []any
}

func (s *Server) currentWeather(_ context.Context, args []byte) (result, error) {
	var in struct {
		Location string `json:"location"`
		Units    string `json:"units"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return result{}, err
	}
	units, err := parseUnits(in.Units)
	if err != nil {
		return result{}, err
	}
	p, err := s.places.find(in.Location)
	if err != nil {
		return result{}, err
	}
	today := newReport(p, weatherOn(p, s.today()), units)
	return result{whole: today, parts: []any{today}}, nil
}

func (s *Server) forecast(_ context.Context, args []byte) (result, error) {
	var in struct {
		Location string `json:"location"`
		Days     *int   `json:"days"`
		Units    string `json:"units"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return result{}, err
	}
	units, err := parseUnits(in.Units)
	if err != nil {
		return result{}, err
	}
	days, err := parseDays(in.Days)
	if err != nil {
		return result{}, err
	}
	p, err := s.places.find(in.Location)
	if err != nil {
		return result{}, err
	}
	parts := make([]any, days)
	for i := range parts {
		parts[i] = newReport(p, weatherOn(p, s.today().AddDate(0, 0, i)), units)
	}
	return result{whole: parts, parts: parts}, nil
}

// today returns the current date, at 00:00 UTC.
func (s *Server) today() time.Time { return s.now().UTC().Truncate(24 * time.Hour) }

func parseDays(days *int) (int, error) {
	if days == nil {
		return defaultDays, nil
	}
	if *days < 1 || *days > maxDays {
		return 0, fmt.Errorf("days is %d; it must be from 1 to %d", *days, maxDays)
	}
	return *days, nil
}

// decodeArgs decodes one JSON object into the struct behind into. Absent arguments are an empty object. An unknown name
// is an error, so that a typo is not ignored.
func decodeArgs(args []byte, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Errorf("bad arguments: %s cannot be a JSON %s", wrongType.Field, wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("bad arguments: want a JSON object, not a JSON %s", wrongType.Value)
	case err != nil:
		return fmt.Errorf("bad arguments: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bad arguments: unexpected data after the JSON object")
	}
	return nil
}
