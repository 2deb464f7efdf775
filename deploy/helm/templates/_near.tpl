{{- /* The servers as origins of a near cache. */}}
{{- define "larder.near.origins" -}}
{{- $origins := include "larder.servers" . | splitList "," }}
{{- if .Values.tls.enabled }}
  {{- $tls := list }}
  {{- range $origins }}
    {{- $tls = printf "tls:%s" . | append $tls }}
  {{- end }}
  {{- $origins = $tls }}
{{- end }}
{{- join "," $origins }}
{{- end }}

{{- /* A sidecar has only a unix socket. A near cache of a node has a port, and a socket if the node
has a folder for it. */}}
{{- define "larder.near.args" -}}
{{- $v := .Values }}
{{- $args := include "larder.sizeArgs" (dict "config" $v.near "memory" (include "larder.near.memory" .) "port" (include "larder.port" .)) | fromJsonArray }}
{{- $socket := printf "unix[mode=%s,readers]:/run/larder-near/larder.sock" $v.near.socket.mode }}
{{- if eq $v.near.kind "Sidecar" }}
  {{- $args = concat $args (list "-l" $socket) }}
{{- else if $v.near.socket.hostPath }}
  {{- $args = concat $args (list "-l" (printf "*,%s" $socket)) }}
{{- end }}
{{- if and (has "-l" $args) (ne $v.near.socket.readers "same-uid") }}
  {{- $args = concat $args (list "--local-readers" $v.near.socket.readers) }}
{{- end }}
{{- $args = concat $args (list "--origin" (include "larder.near.origins" .)) }}
{{- if $v.tls.enabled }}
  {{- $args = concat $args (list "--origin-ca" "/etc/larder/tls/ca.crt") }}
{{- end }}
{{- if $v.near.originLogin.existingSecret }}
  {{- $args = concat $args (list "--origin-login" "/etc/larder/origin/login") }}
{{- end }}
{{- with $v.near.maxStale }}
  {{- $args = concat $args (list "--near-max-stale" .) }}
{{- end }}
{{- $args = concat $args (include "larder.commonArgs" . | fromJsonArray) $v.near.extraArgs }}
{{- toYaml $args }}
{{- end }}

{{- define "larder.near.container" -}}
{{- $v := .Values -}}
name: near
args:
  {{- include "larder.near.args" . | nindent 2 }}
ports:
  {{- if ne $v.near.kind "Sidecar" }}
  - {name: memcached, containerPort: {{ include "larder.port" . }}}
  {{- end }}
  - {name: admin, containerPort: {{ int $v.admin.port }}}
{{- with $v.near.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "larder.containerFields" . }}
volumeMounts:
  {{- include "larder.secretMounts" . | nindent 2 }}
  {{- if $v.near.originLogin.existingSecret }}
  - {name: origin, mountPath: /etc/larder/origin, readOnly: true}
  {{- end }}
  {{- if or (eq $v.near.kind "Sidecar") $v.near.socket.hostPath }}
  - {name: near, mountPath: /run/larder-near}
  {{- end }}
{{- end }}

{{- define "larder.near.volumes" -}}
{{- include "larder.secretVolumes" . }}
{{- with .Values.near.originLogin }}
{{- if .existingSecret }}
- name: origin
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 288
    items: [{key: {{ .key | quote }}, path: login}]
{{- end }}
{{- end }}
{{- if eq .Values.near.kind "Sidecar" }}
- name: near
  emptyDir: {}
{{- else if .Values.near.socket.hostPath }}
# The user of larderd must own this folder of the node: the kubelet would make it for root.
- name: near
  hostPath: {path: {{ .Values.near.socket.hostPath | quote }}, type: Directory}
{{- end }}
{{- end }}
