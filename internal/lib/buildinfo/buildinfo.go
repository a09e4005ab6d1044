// Package buildinfo knows the version of the running program.
package buildinfo

import (
	"regexp"
	"runtime/debug"
	"time"
)

// The linker sets these; see the Makefile. A plain go build leaves them to Get.
var version, commit, date = "", "", ""

// An Info says what a program was built from.
type Info struct {
	Version string // as in v0.1.0; "unknown" if unknown, as are the others
	Commit  string
	Date    string // of the commit, as in RFC 3339
}

// Get returns the Info of the running program from the linker, else from the go command.
func Get() Info {
	i := Info{version, commit, date}
	if built, ok := debug.ReadBuildInfo(); ok {
		fill(&i.Version, built.Main.Version)
		for _, s := range built.Settings {
			switch s.Key {
			case "vcs.revision":
				fill(&i.Commit, s.Value)
			case "vcs.time":
				fill(&i.Date, s.Value)
			}
		}
		commit, date := ofPseudo(built.Main.Version)
		fill(&i.Commit, commit)
		fill(&i.Date, date)
	}
	for _, p := range []*string{&i.Version, &i.Commit, &i.Date} {
		fill(p, "unknown")
	}
	return i
}

// pseudo matches the versions that the go command gives to commits without a tag: time and commit are at their end.
var pseudo = regexp.MustCompile(`[-.]([0-9]{14})-([0-9a-f]{12})(\+\S*)?$`)

// ofPseudo returns the commit and its date that such a version has, or "". go install has no other knowledge of them.
func ofPseudo(version string) (commit, date string) {
	m := pseudo.FindStringSubmatch(version)
	if m == nil {
		return "", ""
	}
	t, err := time.Parse("20060102150405", m[1])
	if err != nil {
		return "", ""
	}
	return m[2], t.Format(time.RFC3339)
}

func fill(p *string, value string) {
	if *p == "" {
		*p = value
	}
}

// number matches versions that begin with a number and may stand in a User-Agent; others, as (devel), may not.
var number = regexp.MustCompile(`^v?[0-9][0-9A-Za-z.+-]*$`)

// UserAgent returns a value of the header User-Agent: the name of a client with the version of the program.
func UserAgent(name string) string { return userAgent(name, Get().Version) }

func userAgent(name, version string) string {
	if !number.MatchString(version) {
		return name
	}
	return name + "/" + version
}
