package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// fleetAndWatch returns settings of a fleet in the namespace tools and of announced capabilities.
func fleetAndWatch(namespaces []string, selector string) kubernetes.Settings {
	s := of(target("mail", "mail", ""))
	s.Watch = kubernetes.Watch{Enabled: true, Namespaces: namespaces, Selector: selector}
	return s
}

// TestBackendsStayUntilTheirSuccessorsAreListed: after a change of the namespaces or the selector, the former objects
// stay in force, and are followed, until the new ones have been listed.
func TestBackendsStayUntilTheirSuccessorsAreListed(t *testing.T) {
	t.Parallel()
	const mail, weather = "mail 10.0.0.1:1 100 mail.tools.svc", "weather 10.0.0.2:1 100 weather.tools.svc"
	const words = "words 10.0.0.3:1 100 words.other.svc"
	for name, test := range map[string]struct {
		from, to       []string
		selector       string
		during, listed []string
	}{
		"all namespaces in place of some": {[]string{"tools"}, []string{"*"}, "",
			[]string{mail, weather}, []string{mail, weather, words}},
		"some namespaces in place of all": {[]string{"*"}, []string{"tools", "other"}, "",
			[]string{mail, weather, words}, []string{mail, weather, words}},
		"one namespace in place of all": {[]string{"*"}, []string{"tools"}, "",
			[]string{mail, weather}, []string{mail, weather}},
		"another selector": {[]string{"*"}, []string{"*"}, "tier=tools",
			[]string{mail, weather, words}, []string{mail, weather, words}},
		"a selector without Services": {[]string{"*"}, []string{"*"}, "tier=web",
			[]string{mail}, []string{mail}},
		"Services of one namespace less": {[]string{"tools", "other"}, []string{"tools"}, "",
			[]string{mail, weather}, []string{mail, weather}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t)
			s.Put(plural, "tools", "mail", kubetest.Slice("mail", 1, kubetest.Endpoint{Addr: "10.0.0.1"}))
			announce(s, "tools", "weather", "10.0.0.2", "capability=weather")
			announce(s, "other", "words", "10.0.0.3", "capability=words")
			r := run(t, s, fleetAndWatch(test.from, ""))
			check.Must(t, r.Await(check.Context(t)))
			s.Deny("list", plural, true)
			s.Deny("list", kubetest.Services, true)
			r.Set(fleetAndWatch(test.to, test.selector))
			check.Must(t, r.Await(check.Context(t)))
			r.has(t, test.during...)
			s.Put(plural, "tools", "mail", kubetest.Slice("mail", 1, kubetest.Endpoint{Addr: "10.0.0.4"}))
			moved := func(all []string) []string {
				return strings.Split(strings.ReplaceAll(strings.Join(all, "\n"), "10.0.0.1", "10.0.0.4"), "\n")
			}
			r.has(t, moved(test.during)...)
			s.Deny("list", plural, false)
			s.Deny("list", kubetest.Services, false)
			r.has(t, moved(test.listed)...)
			want := len(test.to) * 2
			check.Until(t, fmt.Sprint(want, " watches"), func() (bool, string) {
				n := s.Watches()
				return n == want, fmt.Sprint(n)
			})
			r.has(t, moved(test.listed)...)
		})
	}
}

// TestTriedSettingsAreUndone: until Commit, nothing of the former settings ends, also in namespaces that the tried ones
// do not have.
func TestTriedSettingsAreUndone(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "tools", "mail", kubetest.Slice("mail", 1, kubetest.Endpoint{Addr: "10.0.0.1"}))
	s.Put(plural, "other", "words", kubetest.Slice("words", 1, kubetest.Endpoint{Addr: "10.0.0.2"}))
	former := of(target("mail", "mail", ""))
	other := target("words", "words", "")
	other.Namespace = "other"
	r := run(t, s, former)
	r.Try(of(other))
	check.Must(t, r.Await(check.Context(t)))
	r.has(t, "words 10.0.0.2:1 100 words.other.svc")
	s.Away(true)
	r.Set(former)
	check.Must(t, r.Await(check.Context(t)))
	r.has(t, "mail 10.0.0.1:1 100 mail.tools.svc")
	s.Away(false)
	r.Try(of(other))
	r.Commit()
	check.Until(t, "one watch", func() (bool, string) {
		n := s.Watches()
		return n == 1, fmt.Sprint(n)
	})
}
