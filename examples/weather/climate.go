package weather

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// unitSystem is the unit system of the results. Values are computed in metric units.
type unitSystem string

const (
	metric   unitSystem = "metric"   // °C, mm
	imperial unitSystem = "imperial" // °F, inches
)

func parseUnits(s string) (unitSystem, error) {
	switch u := unitSystem(s); u {
	case "":
		return metric, nil
	case metric, imperial:
		return u, nil
	}
	return "", fmt.Errorf("units is %.32q; it must be metric or imperial", s)
}

// weather is the weather of one place on one date, in metric units.
type weather struct {
	date          time.Time
	normal        float64 // °C, the climate's mean for the date
	temperature   float64 // °C
	precipitation float64 // mm
	conditions    string
}

// weatherOn computes the weather of a date (00:00 UTC). It depends only on its arguments.
func weatherOn(p *place, date time.Time) weather {
	w := weather{date: date, normal: onDate(date, func(m time.Month) float64 { return p.temperature[m-1] })}

	// Neighbouring days share two of three draws, so that warm and cold spells last.
	today, yesterday, tomorrow := draw(p, date, 0), draw(p, date, -1), draw(p, date, 1)
	anomaly := (yesterday.warmth + today.warmth + tomorrow.warmth) / math.Sqrt(3)
	spread := 1 + 3*min(math.Abs(p.latitude), 60)/60 // °C: tropical days differ least
	w.temperature = w.normal + anomaly*spread

	// The probability of a wet day grows with the month's rain. On average, the rain of the wet days adds up to the
	// month's sum.
	daily := onDate(date, func(m time.Month) float64 { return p.precipitation[m-1] / daysIn(date.Year(), m) })
	chance := 0.75 * daily / (daily + 2)
	if today.wet < chance {
		w.precipitation = daily / chance * today.amount
	}
	w.conditions = describe(w, today.cloud+chance/2)
	return w
}

// dice holds the random values of a day at a place.
type dice struct {
	warmth float64 // standard normal
	wet    float64 // [0, 1)
	amount float64 // exponential with mean 1
	cloud  float64 // [0, 1)
}

// draw returns the random values of a place for the day that is offset days after date.
func draw(p *place, date time.Time, offset int64) dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.name + "\x00" + p.country)) // a hash.Hash never fails
	day := date.Unix()/int64(24*time.Hour/time.Second) + offset
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(day))) //nolint:gosec // reproducible weather, not a secret
	return dice{warmth: r.NormFloat64(), wet: r.Float64(), amount: r.ExpFloat64(), cloud: r.Float64()}
}

// onDate interpolates a monthly value to a date: linearly, between the middles of the months.
func onDate(date time.Time, figure func(time.Month) float64) float64 {
	middle := func(first time.Time) time.Time { return first.Add(first.AddDate(0, 1, 0).Sub(first) / 2) }
	first := time.Date(date.Year(), date.Month(), 1, 0, 0, 0, 0, time.UTC)
	from, to := first, first.AddDate(0, 1, 0)
	if date.Before(middle(first)) {
		from, to = first.AddDate(0, -1, 0), first
	}
	part := float64(date.Sub(middle(from))) / float64(middle(to).Sub(middle(from)))
	return figure(from.Month())*(1-part) + figure(to.Month())*part
}

func daysIn(year int, m time.Month) float64 {
	return float64(time.Date(year, m+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// describe describes a day in words; cloud is about 0 (none) to 1.4 (a lot).
func describe(w weather, cloud float64) string {
	kind := "rain"
	switch {
	case w.temperature <= 0:
		kind = "snow"
	case w.temperature <= 2:
		kind = "sleet"
	}
	switch {
	case w.precipitation >= 10:
		return "heavy " + kind
	case w.precipitation >= 2.5:
		return kind
	case w.precipitation >= 0.1:
		return "light " + kind
	case cloud < 0.45:
		return "clear"
	case cloud < 0.85:
		return "partly cloudy"
	}
	return "overcast"
}

// report is a day in the results of the tools.
type report struct {
	Location          string     `json:"location"`
	Country           string     `json:"country"`
	Latitude          float64    `json:"latitude"`
	Longitude         float64    `json:"longitude"`
	Date              string     `json:"date"` // YYYY-MM-DD, UTC
	Units             unitSystem `json:"units"`
	Temperature       float64    `json:"temperature"` // daily mean
	NormalTemperature float64    `json:"normal_temperature"`
	TemperatureUnit   string     `json:"temperature_unit"`
	Precipitation     float64    `json:"precipitation"` // daily sum
	PrecipitationUnit string     `json:"precipitation_unit"`
	Conditions        string     `json:"conditions"`
}

func newReport(p *place, w weather, units unitSystem) report {
	r := report{
		Location: p.name, Country: p.country, Latitude: p.latitude, Longitude: p.longitude,
		Date: w.date.Format(time.DateOnly), Units: units, Conditions: w.conditions,
		Temperature: round(w.temperature, 1), NormalTemperature: round(w.normal, 1), TemperatureUnit: "°C",
		Precipitation: round(w.precipitation, 1), PrecipitationUnit: "mm",
	}
	if units == imperial {
		r.Temperature, r.NormalTemperature, r.TemperatureUnit = round(fahrenheit(w.temperature), 1),
			round(fahrenheit(w.normal), 1), "°F"
		r.Precipitation, r.PrecipitationUnit = round(w.precipitation/25.4, 2), "in"
	}
	return r
}

func fahrenheit(celsius float64) float64 { return celsius*9/5 + 32 }

// round rounds to a number of decimals, and never returns -0.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale)/scale + 0
}
