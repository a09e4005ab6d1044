{{- define "capgate.name" -}}
{{- if contains "capgate" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-capgate" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* The name of an object in a namespace, given as {root, namespace}; "*" is the cluster. Releases of one name may share
a namespace that is not their own: there the name has the release's namespace, after a dot, which no namespace has. */}}
{{- define "capgate.nameIn" -}}
{{- include "capgate.name" .root }}{{ if ne .namespace .root.Release.Namespace }}.{{ .root.Release.Namespace }}{{ end }}
{{- end }}

{{- define "capgate.selector" -}}
app.kubernetes.io/name: capgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "capgate.redisSelector" -}}
app.kubernetes.io/name: capgate-redis
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "capgate.testSelector" -}}
app.kubernetes.io/name: capgate-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The secret with the certificate of the public port; empty: cleartext. */}}
{{- define "capgate.tlsSecret" -}}
{{- if .Values.certificate.enabled }}{{ .Values.tls.secret | default (printf "%s-tls" (include "capgate.name" .)) }}{{ else }}{{ .Values.tls.secret }}{{ end }}
{{- end }}

{{- /* The key of the TLS secret with the authority, for helm test; empty: there is none. cert-manager writes ca.crt. */}}
{{- define "capgate.testCA" -}}
{{- .Values.tests.ca | default (ternary "ca.crt" "" .Values.certificate.enabled) }}
{{- end }}

{{- /* Not empty if helm test has a pod: over TLS it needs the authority. */}}
{{- define "capgate.tested" -}}
{{- if and .Values.tests.enabled (or (not (include "capgate.tlsSecret" .)) (include "capgate.testCA" .)) }}tested{{ end }}
{{- end }}

{{- /* Not empty if the admin API speaks TLS. */}}
{{- define "capgate.adminTLS" -}}
{{- with (.Values.config.operators | default dict).tls }}{{ .cert_file }}{{ end }}
{{- end }}

{{- /* Not empty if helm test reads /readyz of the admin API: over TLS it needs the authority. */}}
{{- define "capgate.adminTested" -}}
{{- if or (not (include "capgate.adminTLS" .)) .Values.tests.adminCA.secret }}tested{{ end }}
{{- end }}

{{- /* A probe of the admin API. The kubelet does not verify certificates. */}}
{{- define "capgate.probe" -}}
httpGet: {path: {{ .path }}, port: admin{{ if include "capgate.adminTLS" .root }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- /* How fast an autoscaler acts: a pod that is stopped drains first. */}}
{{- define "capgate.scaling" -}}
scaleUp:
  policies: [{type: Percent, value: 100, periodSeconds: 30}]
scaleDown:
  stabilizationWindowSeconds: 300
  policies: [{type: Pods, value: 1, periodSeconds: 60}]
{{- end }}

{{- define "capgate.labels" -}}
{{- include "capgate.selector" . }}
{{ include "capgate.origin" . }}
{{- end }}

{{- /* Labels that say where an object comes from. They are no part of pods, which a new chart need not replace. */}}
{{- define "capgate.origin" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "capgate.meta" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "capgate.labels" . | nindent 2 }}
{{- end }}

{{- define "capgate.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Not empty if config names no source of backends. */}}
{{- define "capgate.demo" -}}
{{- if not (or (hasKey .Values.config "fleets") (hasKey .Values.config "kubernetes") (hasKey .Values.config "registration")) }}demo{{ end }}
{{- end }}

{{- /* config, with the fleet of the demonstration. */}}
{{- define "capgate.given" -}}
{{- $config := deepCopy .Values.config }}
{{- if include "capgate.demo" . }}
{{- $_ := set $config "fleets" (list (dict "capability" "weather" "policy" "allow" "backends" (list "127.0.0.1:50051"))) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* Manifests by their ids: those of the values, or that of the demonstration. */}}
{{- define "capgate.manifests" -}}
{{- if include "capgate.demo" . }}
{{- toYaml (merge (dict "weather" (.Files.Get "files/weather.yaml")) .Values.manifests) }}
{{- else }}
{{- toYaml .Values.manifests }}
{{- end }}
{{- end }}

{{- /* Not empty if replicas share a Redis. */}}
{{- define "capgate.shared" -}}
{{- $redis := .Values.config.redis }}
{{- if kindIs "map" $redis }}{{ $redis = $redis.url }}{{ end }}
{{- $env := hasKey .Values.env "CAPGATE_REDIS" }}
{{- if or .Values.redis.enabled .Values.redis.existingSecret $env (and $redis (ne $redis "embedded")) }}shared{{ end }}
{{- end }}

{{- /* Refuses values that do not fit together. */}}
{{- define "capgate.check" -}}
{{- if not (include "capgate.shared" .) }}
{{- range list "autoscaling" "keda" }}
{{- if (index $.Values .).enabled }}
{{- fail (printf "%s.enabled needs a Redis that replicas share: set redis.enabled, redis.existingSecret or config.redis" .) }}
{{- end }}
{{- end }}
{{- if gt (int .Values.replicas) 1 }}
{{- fail (printf "replicas: %d needs a Redis that they share: set redis.enabled, redis.existingSecret or config.redis, or replicas to 1" (int .Values.replicas)) }}
{{- end }}
{{- end }}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled }}
{{- fail "autoscaling.enabled and keda.enabled scale the same pods: leave one out" }}
{{- end }}
{{- if and .Values.redis.enabled .Values.redis.existingSecret }}
{{- fail "redis.enabled and redis.existingSecret are two stores: leave one out" }}
{{- end }}
{{- if and .Values.redis.enabled .Values.config.redis (not (kindIs "map" .Values.config.redis)) }}
{{- fail "config.redis is the chart's to set, from redis.enabled: leave it out" }}
{{- end }}
{{- if and .Values.redis.enabled .Values.networkPolicy.redis.podLabels }}
{{- fail "networkPolicy.redis is for a Redis outside of the chart; that of redis.enabled has its own policy: leave podLabels out" }}
{{- end }}
{{- range list "httpRoute" "grpcRoute" }}
{{- $route := index $.Values . }}
{{- if and $route.enabled (not (and $route.parentRefs $route.hostnames)) }}
{{- fail (printf "%s.enabled needs %s.parentRefs, the Gateways, and %s.hostnames" . . .) }}
{{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.enabled needs ingress.hosts" }}
{{- end }}
{{- if and .Values.certificate.enabled (not .Values.certificate.issuerRef.name) }}
{{- fail "certificate.enabled needs certificate.issuerRef.name" }}
{{- end }}
{{- with (.Values.config.operators | default dict).tls }}
{{- if and .client_ca_file (ne .client_auth "optional") }}
{{- fail "config.operators.tls.client_ca_file needs client_auth: optional, because the kubelet's probes have no certificate" }}
{{- end }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (include "capgate.adminTLS" .) (not .Values.serviceMonitor.tlsConfig) }}
{{- fail "serviceMonitor.enabled with config.operators.tls needs serviceMonitor.tlsConfig: its ca and serverName" }}
{{- end }}
{{- end }}

{{- /* A checksum of the fields of the configuration whose change needs a restart; empty without such fields. */}}
{{- define "capgate.restart" -}}
{{- $config := omit (include "capgate.config" . | fromYaml) "admin" }}{{- /* always the same */}}
{{- $given := list }}
{{- range .Files.Get "files/restart.json" | fromJsonArray }}
{{- range .without }}
{{- $parent := $config }}
{{- range initial . }}
{{- $parent = get (ternary $parent dict (kindIs "map" $parent)) . }}
{{- end }}
{{- $_ := unset (ternary $parent dict (kindIs "map" $parent)) (last .) }}
{{- end }}
{{- $value := $config }}
{{- $found := true }}
{{- range .path }}
{{- $found = and $found (kindIs "map" $value) (hasKey (ternary $value dict (kindIs "map" $value)) .) }}
{{- $value = get (ternary $value dict (kindIs "map" $value)) . }}
{{- end }}
{{- if $found }}
{{- $given = append $given (list (join "." .path) (ternary true $value (.switch | default false))) }}
{{- end }}
{{- end }}
{{- if $given }}{{ toJson $given | sha256sum }}{{ end }}
{{- end }}

{{- define "capgate.env" -}}
{{- $env := deepCopy .Values.env }}
{{- with .Values.redis }}
{{- if or .enabled .existingSecret }}
{{- if hasKey $env "CAPGATE_REDIS" }}
{{- fail (printf "env.CAPGATE_REDIS and redis.%s are the same: leave one out" (ternary "enabled" "existingSecret" .enabled)) }}
{{- end }}
{{- $own := dict "secret" (printf "%s-redis" (include "capgate.name" $)) "key" "url" }}
{{- $_ := set $env "CAPGATE_REDIS" (ternary $own (dict "secret" .existingSecret "key" .key) .enabled) }}
{{- end }}
{{- end }}
{{- toYaml $env }}
{{- end }}

{{- /* A peer of a policy in any namespace. */}}
{{- define "capgate.peer" -}}
namespaceSelector:
  matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace }}}
podSelector:
  matchLabels:
    {{- include "capgate.selector" . | nindent 4 }}
{{- end }}

{{- /* The namespaces with backends of fleets, as JSON. */}}
{{- define "capgate.namespaces" -}}
{{- $all := list }}
{{- range .Values.config.fleets }}
{{- if hasKey . "kubernetes" }}
{{- $all = append $all (.kubernetes.namespace | default $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- $all = concat $all (include "capgate.watched" . | fromJsonArray) }}
{{- $all | uniq | sortAlpha | toJson }}
{{- end }}

{{- /* The namespaces of kubernetes.watch, as JSON. */}}
{{- define "capgate.watched" -}}
{{- $all := list }}
{{- with .Values.config.kubernetes }}
{{- if hasKey . "watch" }}
{{- $all = (.watch | default dict).namespaces | default (list $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{- /* The file: what the values say of it goes over config. */}}
{{- define "capgate.config" -}}
{{- $config := include "capgate.given" . | fromYaml }}
{{- range list "listen" "admin" "drain" "manifests" }}
{{- if hasKey $config . }}
{{- fail (printf "config.%s is the chart's to set, from values beside config: leave it out" .) }}
{{- end }}
{{- end }}
{{- range list "cert_file" "key_file" }}
{{- if hasKey ($config.tls | default dict) . }}
{{- fail (printf "config.tls.%s is the chart's to set, from tls.secret: leave it out" .) }}
{{- end }}
{{- end }}
{{- $_ := set $config "admin" ":8081" }}
{{- $_ := set $config "drain" (dict "delay" (printf "%ds" (int .Values.drain.delaySeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- with include "capgate.tlsSecret" . }}
{{- $_ := set $config "tls" (merge (dict "cert_file" "/etc/capgate/tls/tls.crt" "key_file" "/etc/capgate/tls/tls.key") ($config.tls | default dict)) }}
{{- end }}
{{- if and .Values.redis.enabled (kindIs "map" $config.redis) }}
{{- $_ := set $config.redis "url" (printf "redis://capgate@%s-redis:6379" (include "capgate.name" .)) }}
{{- end }}
{{- if and .Values.redis.existingSecret (kindIs "map" $config.redis) }}
{{- if not (hasKey $config.redis "url") }}
{{- fail "config.redis has fields without a url: give the address of redis.existingSecret without the password, as what the fields are checked with" }}
{{- end }}
{{- end }}
{{- if .Values.secretFile.secret }}
{{- if hasKey $config "secret_file" }}
{{- fail "config.secret_file is the chart's to set, from secretFile: leave it out" }}
{{- end }}
{{- $_ := set $config "secret_file" (printf "/etc/capgate/secret/%s" .Values.secretFile.key) }}
{{- end }}
{{- if not (hasKey $config "operators") }}
{{- $_ := set $config "operators" dict }}
{{- end }}
{{- /* Names of Services. Of these, only NAME.NAMESPACE can be a public name: in a namespace such as dev or app. */}}
{{- range $field, $name := dict "hosts" (include "capgate.name" .) "admin_hosts" (printf "%s-admin" (include "capgate.name" .)) }}
{{- if not (hasKey $config $field) }}
{{- $_ := set $config $field (list $name (printf "%s.%s" $name $.Release.Namespace) "*.svc" "*.svc.cluster.local") }}
{{- end }}
{{- end }}
{{- range list .Values.ingress.hosts .Values.httpRoute.hostnames .Values.grpcRoute.hostnames }}
{{- $_ := set $config "hosts" (concat $config.hosts (. | default list) | uniq) }}
{{- end }}
{{- if include "capgate.manifests" . | fromYaml }}
{{- $_ := set $config "manifests" (list "/etc/capgate/manifests") }}
{{- end }}
{{- toYaml $config }}
{{- end }}
