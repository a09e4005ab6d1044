package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/config"
)

func TestParseWebhook(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: ['b:1']}]\n"
	for name, test := range map[string]struct {
		file string
		want config.Webhook
	}{
		"none": {"approvals: {ttl: 1m}\n", config.Default().Approvals.Webhook},
		"defaults": {"approvals: {webhook: {url: 'http://h', secret_file: s}}\n",
			config.Webhook{URL: "http://h", SecretFile: "s", Events: []string{"asked"}, Timeout: 10 * time.Second,
				Attempts: 10}},
		"all": {"approvals: {webhook: {url: 'https://h/x?y=z', secret_file: s, events: [used, asked], timeout: " +
			"1s, attempts: 3, proxy: environment}}\n",
			config.Webhook{URL: "https://h/x?y=z", SecretFile: "s", Events: []string{"used", "asked"},
				Timeout: time.Second, Attempts: 3, Proxy: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Parse("f", []byte(fleet+test.file))
			if err != nil || !reflect.DeepEqual(got.Approvals.Webhook, test.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"nothing": {"approvals: {webhook: {}}\n",
			[]string{`f:2: approvals.webhook.url: required`, `f:2: approvals.webhook.secret_file: required`}},
		"values": {"approvals:\n  webhook:\n    url: 'http://u:secret@h/'\n    secret_file: s\n    events: " +
			"[asked, made, asked]\n    timeout: 2m\n    attempts: 0\n    proxy: 'http://p'\n    token: x\n", []string{
			`f:4: approvals.webhook.url: must have neither a user nor`,
			`f:6: approvals.webhook.events[1]: "made" is not possible; it must be asked, approved, denied`,
			`f:6: approvals.webhook.events[2]: asked is already at approvals.webhook.events[0], in line 6`,
			`f:7: approvals.webhook.timeout: "2m" is not possible; it must be a duration from 100ms to 1m`,
			`f:8: approvals.webhook.attempts: "0" is not possible`,
			`f:9: approvals.webhook.proxy: "http://p" is not possible; it must be none or environment`,
			`f:10: approvals.webhook.token: unknown field`}},
		"no URL": {"approvals: {webhook: {url: 'secret.example/h', secret_file: s}}\n",
			[]string{`f:2: approvals.webhook.url: is not an HTTP URL`}},
		"bad": {"approvals: {webhook: {url: 'http://u:secret@%zz/', secret_file: s}}\n",
			[]string{`f:2: approvals.webhook.url: is not an HTTP URL`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("f", []byte(fleet+test.file))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "secret.example") {
				t.Errorf("the error repeats a secret: %v", err)
			}
			matchLines(t, strings.Split(err.Error(), "\n"), test.want)
		})
	}
}
