package weather_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/capgate/capgate/examples/weather"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestDaysAverageToTheNormals: over many years, a month's days have the mean temperature and the rain of the table.
func TestDaysAverageToTheNormals(t *testing.T) {
	t.Parallel()
	const years = 25
	var now time.Time
	capability, err := weather.New(weather.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		city        string
		temperature float64 // °C, July
		year        float64 // mm, sum of the twelve months
	}{
		{"Berlin", 20.0, 592}, {"Singapore", 28.2, 1969}, {"Buenos Aires", 11.0, 1227}, {"Cairo", 28.2, 25},
	} {
		var temperature, rain float64
		for year := range years {
			for d := time.Date(1990+year, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() == 1990+year; d = d.AddDate(0, 0, 1) {
				now = d
				got := today(t, capability, tc.city)
				rain += got.Precipitation / years
				if d.Month() == time.July {
					temperature += got.Temperature / (31 * years)
				}
			}
		}
		if math.Abs(temperature-tc.temperature) > 0.6 {
			t.Errorf("%s: July is %.1f °C in the mean, the table says %.1f", tc.city, temperature, tc.temperature)
		}
		if math.Abs(rain-tc.year) > 0.15*tc.year {
			t.Errorf("%s: %.0f mm a year in the mean, the table says %.0f", tc.city, rain, tc.year)
		}
	}
}

func today(t *testing.T, capability *weather.Server, city string) (out day) {
	t.Helper()
	args, _ := json.Marshal(map[string]string{"location": city})
	resp, err := capability.Invoke(t.Context(), &docpb.InvokeRequest{ToolName: "get_current_weather", ArgsJson: args})
	if err != nil || resp.GetError() != "" {
		t.Fatal(err, resp.GetError())
	}
	if err := json.Unmarshal(resp.GetResultJson(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReplicasAgree: two servers give the same answer on the same day, and a different one on another day.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	at := func(now time.Time) *weather.Server {
		s, err := weather.New(weather.Config{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	morning, night, tomorrow := at(july().Add(-17*time.Hour)), at(july().Add(5*time.Hour)), at(july().Add(6*time.Hour))
	if a, b := today(t, morning, "Rome"), today(t, night, "Rome"); a != b {
		t.Errorf("one day, two answers: %+v, %+v", a, b)
	}
	if a, b := today(t, morning, "Rome"), today(t, tomorrow, "Rome"); a.Temperature == b.Temperature ||
		a.Date == b.Date {
		t.Errorf("two days, one answer: %+v", a)
	}
}

// TestTable checks the table for impossible values, which reveal an error in a column, a sign or a hemisphere.
func TestTable(t *testing.T) {
	t.Parallel()
	file, err := os.Open("normals.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows)-1 < 60 {
		t.Errorf("%d cities, want at least 60", len(rows)-1)
	}
	for _, row := range rows[1:] {
		f := make([]float64, len(row))
		for i := 2; i < len(row); i++ {
			if f[i], err = strconv.ParseFloat(row[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		latitude, longitude, january, july := f[2], f[3], f[4], f[10]
		if math.Abs(latitude) > 90 || math.Abs(longitude) > 180 {
			t.Errorf("%s lies at %v, %v", row[0], latitude, longitude)
		}
		if math.Abs(latitude) > 23.5 && (july > january) != (latitude > 0) {
			t.Errorf("%s: January %v, July %v at latitude %v", row[0], january, july, latitude)
		}
		for m := range 12 {
			temperature, rain := f[4+m], f[16+m]
			if temperature < -15 || temperature > 40 || rain < 0 || rain > 1000 {
				t.Errorf("%s, month %d: %v °C, %v mm", row[0], m+1, temperature, rain)
			}
			if step := math.Abs(temperature - f[4+(m+1)%12]); step > 12 {
				t.Errorf("%s: %v degrees from month %d to the next", row[0], step, m+1)
			}
		}
	}
}
