package weather

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const maxExportPlaces = 1000 // with maxDays, about a megabyte of CSV

// attachment refers to an uploaded file as the orchestrator passes it to a tool.
type attachment struct {
	ID string `json:"capability_artifact_id"`
}

// UnmarshalJSON ignores other keys: orchestrators add the file's name and type, which are no mistake of the agent.
func (a *attachment) UnmarshalJSON(object []byte) error {
	type plain attachment
	return json.Unmarshal(object, (*plain)(a))
}

// artifactRef refers to a written file as the orchestrator finds it in a result.
type artifactRef struct {
	ID        string `json:"capability_artifact_id"`
	Filename  string `json:"filename"`
	MIMEType  string `json:"mime_type"`
	SizeBytes int    `json:"size_bytes"`
}

// exported is the result of export_report.
type exported struct {
	Artifact  artifactRef `json:"artifact"`
	Locations int         `json:"locations"`
	Days      int         `json:"days"`
	Rows      int         `json:"rows"` // without the header
	Units     unitSystem  `json:"units"`
}

// exportReport writes one CSV line per place and day. The places are those in the arguments and in the attachments;
// without either, all cities of the table.
func (s *Server) exportReport(ctx context.Context, args []byte) (result, error) {
	var in struct {
		Locations   []string     `json:"locations"`
		Attachments []attachment `json:"attachments"`
		Days        *int         `json:"days"`
		Units       string       `json:"units"`
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
	places := s.places.all
	if in.Locations != nil || in.Attachments != nil {
		if places, err = s.listed(in.Locations, in.Attachments); err != nil {
			return result{}, err
		}
	}
	file, err := writeCSV(ctx, places, s.today(), days, units)
	if err != nil {
		return result{}, err
	}
	if err := s.artifacts.reserve(len(file)); err != nil {
		return result{}, err
	}
	a := s.artifacts.add("weather-"+s.today().Format(time.DateOnly)+".csv", "text/csv", file)
	out := exported{
		Artifact:  artifactRef{ID: a.id, Filename: a.filename, MIMEType: a.mimeType, SizeBytes: len(file)},
		Locations: len(places), Days: days, Rows: len(places) * days, Units: units,
	}
	return result{whole: out, parts: []any{out}}, nil
}

// listed returns the places named in the arguments and in the uploaded files, without duplicates.
func (s *Server) listed(names []string, attachments []attachment) ([]*place, error) {
	for _, at := range attachments {
		a := s.artifacts.get(at.ID)
		if a == nil {
			return nil, fmt.Errorf("no attachment %.64q, or it has expired: upload it again", at.ID)
		}
		lines, err := placeList(a.data)
		if err != nil {
			return nil, fmt.Errorf("attachment %q: %w", a.filename, err)
		}
		names = append(names, lines...)
	}
	if len(names) == 0 {
		return nil, errors.New("the list of locations is empty")
	}
	if len(names) > maxExportPlaces {
		return nil, fmt.Errorf("%d locations are too many: at most %d", len(names), maxExportPlaces)
	}
	var places []*place
	seen := make(map[*place]bool)
	for _, name := range names {
		p, err := s.places.find(name)
		if err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
	}
	return places, nil
}

// placeList reads one place per line. It ignores blank lines and a byte order mark.
func placeList(file []byte) ([]string, error) {
	if !utf8.Valid(file) {
		return nil, errors.New("not a text file in UTF-8")
	}
	var names []string
	for line := range strings.Lines(strings.TrimPrefix(string(file), "\ufeff")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if names = append(names, line); len(names) > maxExportPlaces {
			return nil, fmt.Errorf("more than %d lines", maxExportPlaces)
		}
	}
	return names, nil
}

func writeCSV(ctx context.Context, places []*place, from time.Time, days int, units unitSystem) ([]byte, error) {
	var file bytes.Buffer
	w := csv.NewWriter(&file)
	rows := [][]string{{
		"location", "country", "date", "temperature", "normal_temperature", "temperature_unit",
		"precipitation", "precipitation_unit", "conditions",
	}}
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range days {
			r := newReport(p, weatherOn(p, from.AddDate(0, 0, i)), units)
			rows = append(rows, []string{
				r.Location, r.Country, r.Date, decimal(r.Temperature), decimal(r.NormalTemperature), r.TemperatureUnit,
				decimal(r.Precipitation), r.PrecipitationUnit, r.Conditions,
			})
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return file.Bytes(), nil
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
