{{- define "larder.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* The name of a pod is a label, of 63 characters at most, and so is the name with a revision:
52 remain. A longer name keeps its start and a hash, so that two of them stay different. */}}
{{- define "larder.fullname" -}}
{{- $name := .Values.fullnameOverride }}
{{- if not $name }}
  {{- $name = include "larder.name" . }}
  {{- if contains $name .Release.Name }}
    {{- $name = .Release.Name }}
  {{- else }}
    {{- $name = printf "%s-%s" .Release.Name $name }}
  {{- end }}
{{- end }}
{{- if gt (len $name) 52 }}
  {{- $name = printf "%s-%s" ($name | trunc 43 | trimSuffix "-") ($name | sha256sum | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "larder.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "larder.serviceAccount" -}}
{{- $own := ternary (include "larder.fullname" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $own }}
{{- end }}

{{- /* Arguments of this and of the next template: root, component. */}}
{{- define "larder.selector" -}}
app.kubernetes.io/name: {{ include "larder.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* The chart's own labels win over those of the values, because selectors need them. */}}
{{- define "larder.labels" -}}
{{- $own := include "larder.selector" . | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
{{- merge $own (.labels | default dict) .root.Values.commonLabels | toYaml }}
{{- end }}

{{- /* The metadata of an object. Arguments: root, name, component; labels, annotations and namespace
may be left out. */}}
{{- define "larder.metadata" -}}
metadata:
  name: {{ .name }}
  {{- with .namespace | default .root.Values.namespaceOverride }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "larder.labels" . | nindent 4 }}
  {{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "larder.image" -}}
{{- $image := .Values.image }}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "larder.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat .Values.global.imagePullSecrets .Values.image.pullSecrets .Values.imagePullSecrets }}
  {{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "larder.port" -}}
{{ .Values.service.ports.memcached | default .Values.service.port | int }}
{{- end }}

{{- /* The address of each server, as clients and near caches write it. */}}
{{- define "larder.servers" -}}
{{- $service := include "larder.fullname" . }}
{{- $domain := printf "%s.%s.svc.%s" $service (include "larder.namespace" .) .Values.clusterDomain }}
{{- $servers := list }}
{{- range until (int .Values.replicaCount) }}
  {{- $servers = append $servers (printf "%s-%d.%s:%s" $service . $domain (include "larder.port" $)) }}
{{- end }}
{{- join "," $servers }}
{{- end }}

{{- /* Not empty if a Service has one address for all servers. */}}
{{- define "larder.hasFront" -}}
{{- if or (ne .Values.service.type "ClusterIP") (ne .Values.service.clusterIP "None") }}yes{{ end }}
{{- end }}

{{- /* Not empty if servers read the list of servers from a file. */}}
{{- define "larder.hasServerFile" -}}
{{- if and .Values.discovery.enabled (eq .Values.discovery.source "names") }}yes{{ end }}
{{- end }}
