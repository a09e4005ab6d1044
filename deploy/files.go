package deploy

import "embed"

// Files has the files that capgate init writes, with their paths below deploy.
//
//go:embed compose/compose.yaml compose/haproxy.cfg compose/config/capgate.yaml redis/compose.acl
//go:embed prometheus/prometheus.yml prometheus/rules grafana/provisioning grafana/dashboards
//go:embed systemd/capgate.service kustomize/base kustomize/init
var Files embed.FS
