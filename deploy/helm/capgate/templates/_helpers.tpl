{{- define "capgate.name" -}}
{{- if contains "capgate" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-capgate" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "capgate.selector" -}}
app.kubernetes.io/name: capgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "capgate.meta" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "capgate.selector" . | nindent 2 }}
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
{{- $config := deepCopy .Values.config }}
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
{{- /* Names of Services, which no page of another site can have. */}}
{{- range $field, $name := dict "hosts" (include "capgate.name" .) "admin_hosts" (printf "%s-admin" (include "capgate.name" .)) }}
{{- if not (hasKey $config $field) }}
{{- $_ := set $config $field (list $name "*.svc" "*.svc.cluster.local") }}
{{- end }}
{{- end }}
{{- if .Values.manifests }}
{{- $_ := set $config "manifests" (list "/etc/capgate/manifests") }}
{{- end }}
{{- toYaml $config }}
{{- end }}
