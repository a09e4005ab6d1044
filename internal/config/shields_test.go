package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/extauthz"
)

func TestParseShields(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets:
  - {capability: a, backends: []}
  - {capability: b, backends: [], shield: other}
  - {capability: c, backends: [], shield: none}
shield: main
shields:
  - {name: main, address: "shield:9091"}
  - {name: other, url: "https://shield.example/evaluate?x=1", tls: {ca_file: /ca.pem},
     timeout: 2s, on_failure: ask, action: capability.tool}
`))
	check.Must(t, err)
	want := []extauthz.Config{
		{Name: "main", Address: "shield:9091", Timeout: 500 * time.Millisecond},
		{
			Name: "other", URL: "https://shield.example/evaluate?x=1",
			Files:   tlsfiles.Client{Enabled: true, CAFile: "/ca.pem"},
			Timeout: 2 * time.Second, OnFailure: call.Ask, Qualified: true,
		},
	}
	if !reflect.DeepEqual(got.Shields, want) || got.Shield != "main" {
		t.Errorf("got  %+v, %q\nwant %+v", got.Shields, got.Shield, want)
	}
	for i, name := range []string{"main", "other", ""} {
		if got.Fleets[i].Shield != name {
			t.Errorf("fleet %d has the shield %q, want %q", i, got.Fleets[i].Shield, name)
		}
	}
	got, err = config.Parse("f", []byte("shield: none\nfleets: [{capability: a, backends: []}]"))
	if err != nil || got.Shield != "" || got.Fleets[0].Shield != "" {
		t.Errorf("none for all: %+v, %v", got, err)
	}
}

func TestParseShieldsErrors(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: ['b:1'], shield: main}]\n"
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"unknown": {fleet + "shield: other\n", []string{
			`f:1: fleets[0].shield: there is no shield "main"`, `f:2: shield: there is no shield "other"`}},
		"not a name": {fleet + "shield: []\nshields: [{name: main, address: 'h:1'}]\n",
			[]string{`f:2: shield: must be a string`}},
		"twice": {fleet + "shields:\n- {name: main, address: 'h:1'}\n- {name: main, address: 'h:2'}\n", []string{
			`f:4: shields[1].name: main is already at shields[0].name, in line 3`}},
		"names": {fleet + "shields: [{name: main, address: 'h:1'}, {name: none, address: 'h:1'}, {name: 'a b', " +
			"address: 'h:1'}]\n", []string{`f:2: shields[1].name: none is reserved for fleets`,
			`f:2: shields[2].name: "a b" is not a name`}},
		"nothing": {fleet + "shields: [{name: main}, {}]\n",
			[]string{`f:2: shields[0].address: required`, `f:2: shields[1].name: required`,
				`f:2: shields[1].address: required`}},
		"both": {fleet + "shields: [{name: main, address: 'h:1', url: 'http://h/evaluate'}]\n",
			[]string{`f:2: shields[0].url: address is set, too`}},
		"values": {fleet + "shields:\n- name: main\n  address: 'https://h:1'\n  timeout: 31s\n  on_failure: " +
			"close\n  token: x\n", []string{
			`f:4: shields[0].address: write host:port without "https://"`,
			`f:5: shields[0].timeout: "31s" is not possible; it must be a duration from 1ms to 30s`,
			`f:6: shields[0].on_failure: "close" is not possible; it must be allow, ask or block`,
			`f:7: shields[0].token: unknown field`}},
		"too short": {fleet + "shields: [{name: main, address: 'h:1', timeout: 1us}]\n",
			[]string{`f:2: shields[0].timeout: "1us" is not possible; it must be a duration from 1ms to 30s`}},
		"urls": {fleet + "shields:\n- {name: main, url: 'http://u:secret@h/evaluate'}\n- {name: b, url: " +
			"'http://h'}\n- {name: c, url: 'ftp://h/evaluate'}\n- {name: d, url: 'http://h/evaluate', tls: " +
			"{}}\n- {name: e, url: 'http://u:secret@%zz/'}\n", []string{
			`f:3: shields[0].url: must have neither a user nor`, `f:4: shields[1].url: lacks the path`,
			`f:5: shields[2].url: is not an HTTP URL`,
			`f:6: shields[3].tls: the url is not https`, `f:7: shields[4].url: is not an HTTP URL`}},
		"tls": {fleet + "shields: [{name: main, address: 'h:1', tls: {cert_file: c}}]\n",
			[]string{`f:2: shields[0].tls: cert_file and key_file belong together`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("f", []byte(test.file))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats a secret: %v", err)
			}
			matchLines(t, strings.Split(err.Error(), "\n"), test.want)
		})
	}
}
