{{- define "capgate.name" -}}
{{- if contains "capgate" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-capgate" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "capgate.selector" -}}
app.kubernetes.io/name: capgate
app.kubernetes.io/instance: {{ .Release.Name }}
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

{{- /* Not empty for an empty config. */}}
{{- define "capgate.demo" -}}
{{- if not .Values.config }}demo{{ end }}
{{- end }}

{{- /* config, or that of the demonstration. */}}
{{- define "capgate.given" -}}
{{- if include "capgate.demo" . }}
{{- $fleet := dict "capability" "weather" "policy" "allow" "backends" (list "127.0.0.1:50051") }}
{{- toYaml (dict "fleets" (list $fleet)) }}
{{- else }}
{{- toYaml .Values.config }}
{{- end }}
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
{{- if or .Values.redis.existingSecret $env (and $redis (ne $redis "embedded")) }}shared{{ end }}
{{- end }}

{{- /* Refuses values that do not fit together. */}}
{{- define "capgate.check" -}}
{{- if not (include "capgate.shared" .) }}
{{- if .Values.autoscaling.enabled }}
{{- fail "autoscaling.enabled needs a Redis that replicas share: set redis.existingSecret or config.redis" }}
{{- end }}
{{- if gt (int .Values.replicas) 1 }}
{{- fail (printf "replicas: %d needs a Redis that they share: set redis.existingSecret or config.redis, or replicas to 1" (int .Values.replicas)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A checksum of the fields of the configuration whose change needs a restart; empty without such fields. */}}
{{- define "capgate.restart" -}}
{{- $config := include "capgate.config" . | fromYaml }}
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
{{- if .existingSecret }}
{{- if hasKey $env "CAPGATE_REDIS" }}
{{- fail "env.CAPGATE_REDIS and redis.existingSecret are the same: leave one out" }}
{{- end }}
{{- $_ := set $env "CAPGATE_REDIS" (dict "secret" .existingSecret "key" .key) }}
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
{{- $_ := set $config "drain" (dict "delay" (printf "%ds" (int .Values.drain.delaySeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- with .Values.tls.secret }}
{{- $_ := set $config "tls" (merge (dict "cert_file" "/etc/capgate/tls/tls.crt" "key_file" "/etc/capgate/tls/tls.key") ($config.tls | default dict)) }}
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
{{- /* Names of Services, which no page of another site can have. */}}
{{- range $field, $name := dict "hosts" (include "capgate.name" .) "admin_hosts" (printf "%s-admin" (include "capgate.name" .)) }}
{{- if not (hasKey $config $field) }}
{{- $_ := set $config $field (list $name "*.svc" "*.svc.cluster.local") }}
{{- end }}
{{- end }}
{{- if include "capgate.manifests" . | fromYaml }}
{{- $_ := set $config "manifests" (list "/etc/capgate/manifests") }}
{{- end }}
{{- toYaml $config }}
{{- end }}
