package deploy

import (
	"reflect"
	"testing"
)

// TestTheChartRestartsPodsForFieldsThatNeedIt: a configuration change that takes effect at once does not change the
// pods.
func TestTheChartRestartsPodsForFieldsThatNeedIt(t *testing.T) {
	t.Parallel()
	const before = "config.fleets[0].capability=a,config.fleets[0].backends[0]=a:1,config.approvals.ttl=1m," +
		"config.log.format=text,manifests.a=id: a"
	pod := func(set string) any {
		return field(renderChart(t, "--set", set)["Deployment capgate"], "spec", "template")
	}
	first := pod(before)
	for change, restarts := range map[string]bool{
		"config.fleets[0].policy=ask": false,
		"config.log.level=debug":      false,
		"config.approvals.notices[0].name=x,config.approvals.notices[0].url=https://a": false,
		"manifests.b=id: b":       false,
		"config.approvals.ttl=2m": true,
		"config.log.format=json":  true,
		"config.operators.tls.cert_file=/c,config.operators.tls.key_file=/k": true,
		"tls.secret=t":       true,
		"podAnnotations.a=b": true,
		"config.max_connection_age=3m,config.zone=north": true,
	} {
		if same := reflect.DeepEqual(pod(before+","+change), first); same == restarts {
			t.Errorf("%s: restarts: %v", change, !same)
		}
	}
}
