package weather

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed normals.csv
var normalsCSV string

const (
	maxNameRunes   = 100 // longer names are rejected before the edit distances are computed
	maxSuggestions = 3
)

// place is one city with its climate normals, January first.
type place struct {
	name, country       string
	latitude, longitude float64
	temperature         [12]float64 // monthly mean, °C
	precipitation       [12]float64 // monthly sum, mm
}

// gazetteer finds places by name. It is immutable.
type gazetteer struct {
	all    []*place
	byName map[string]*place // by folded name
}

// readNormals reads the table: a header, then name, country, latitude, longitude,
// twelve temperatures and twelve precipitations per line.
func readNormals(r io.Reader) (*gazetteer, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = 4 + 12 + 12
	if _, err := in.Read(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	g := &gazetteer{byName: make(map[string]*place)}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return nil, err
		}
		p := &place{name: row[0], country: row[1]}
		numbers := [][]float64{{0, 0}, p.temperature[:], p.precipitation[:]}
		fields := row[2:]
		for _, group := range numbers {
			for i := range group {
				if group[i], err = strconv.ParseFloat(fields[i], 64); err != nil {
					return nil, fmt.Errorf("%s: %w", p.name, err)
				}
			}
			fields = fields[len(group):]
		}
		p.latitude, p.longitude = numbers[0][0], numbers[0][1]
		key := fold(p.name)
		if g.byName[key] != nil {
			return nil, fmt.Errorf("%s is in the table twice", p.name)
		}
		g.byName[key] = p
		g.all = append(g.all, p)
	}
}

// find returns the place with a name such as "Zürich", "zurich" or "Zurich, Switzerland". Its error suggests similar
// names.
func (g *gazetteer) find(query string) (*place, error) {
	if utf8.RuneCountInString(query) > maxNameRunes {
		return nil, fmt.Errorf("location is longer than %d characters", maxNameRunes)
	}
	name, country, hasCountry := strings.Cut(query, ",")
	key := fold(name)
	if key == "" {
		return nil, errors.New("location is missing: name a city, such as Berlin")
	}
	p := g.byName[key]
	if p != nil && (!hasCountry || fold(country) == fold(p.country)) {
		return p, nil
	}
	near := g.near(key)
	if len(near) == 0 {
		return nil, fmt.Errorf("unknown city %q; there are %d, such as Berlin, Nairobi and Tokyo", query, len(g.all))
	}
	return nil, fmt.Errorf("unknown city %q; did you mean %s?", query, strings.Join(near, " or "))
}

// near returns up to maxSuggestions names, the most similar first: those that differ by a few letters, and those with
// the query as a prefix.
func (g *gazetteer) near(key string) []string {
	type candidate struct {
		place    *place
		distance int
	}
	asked := []rune(key)
	var found []candidate
	for _, p := range g.all {
		name := fold(p.name)
		d := editDistance(asked, []rune(name))
		if d <= max(2, len(asked)/3) && d < len(asked) || len(asked) >= 3 && strings.HasPrefix(name, key) {
			found = append(found, candidate{p, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range found[:min(len(found), maxSuggestions)] {
		names = append(names, c.place.name+", "+c.place.country)
	}
	return names
}

// fold normalizes names for comparison: lower case, no accents, hyphens as spaces, single spaces.
func fold(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Mn, r):
			return -1
		case r == '-':
			return ' '
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(name))
	return strings.Join(strings.Fields(plain), " ")
}

// editDistance returns the Levenshtein distance: the fewest letters to insert, delete
// or replace that turn a into b.
func editDistance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, ra := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, rb := range b {
			replace := diagonal
			if ra != rb {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
