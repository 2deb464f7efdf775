{{- /* Seconds that preStop and the stop of larderd take at most. */}}
{{- define "larder.stopSeconds" -}}
{{- $p := .Values.persistence }}
{{- $stop := 0 }}
{{- if $p.enabled }}
  {{- $stop = eq $p.mode "tier" | ternary $p.tier.stopSeconds $p.dump.seconds }}
{{- end }}
{{- add .Values.drain.waitSeconds $stop }}
{{- end }}

{{- define "larder.user" -}}
{{- $container := .Values.containerSecurityContext }}
{{- $pod := .Values.podSecurityContext }}
{{- if and $container.enabled (hasKey $container "runAsUser") }}
  {{- int $container.runAsUser }}
{{- else if and $pod.enabled (hasKey $pod "runAsUser") }}
  {{- int $pod.runAsUser }}
{{- else }}
  {{- 11211 }}
{{- end }}
{{- end }}

{{- /* Arguments that servers and near caches share. */}}
{{- define "larder.commonArgs" -}}
{{- $args := list "--admin-listen" (printf "*:%d,role=%s;/run/larder/admin.sock,mode=600" (int .Values.admin.port) .Values.admin.role) }}
{{- if ne (int .Values.drain.graceSeconds) 5 }}
  {{- $args = concat $args (list "--drain-grace" (.Values.drain.graceSeconds | int | toString)) }}
{{- end }}
{{- if .Values.admin.existingSecret }}
  {{- $args = concat $args (list "--admin-token-file" "/etc/larder/admin/tokens") }}
{{- end }}
{{- if .Values.auth.enabled }}
  {{- $args = concat $args (list "--users" "/etc/larder/users/users.toml") }}
{{- end }}
{{- if .Values.tls.enabled }}
  {{- $words := list "ssl_chain_cert=/etc/larder/tls/tls.crt" "ssl_key=/etc/larder/tls/tls.key" }}
  {{- if and .Values.tls.certCAFilename (ne .Values.tls.clientCertificates "none") }}
    {{- $mode := get (dict "optional" "1" "required" "2") .Values.tls.clientCertificates }}
    {{- $words = concat $words (list "ssl_ca_cert=/etc/larder/tls/ca.crt" (printf "ssl_verify_mode=%s" $mode)) }}
  {{- end }}
  {{- $args = concat $args (list "-Z" "-o" (join "," $words)) }}
{{- end }}
{{- if eq (include "larder.user" .) "0" }}
  {{- $args = concat $args (list "-u" "root") }}
{{- end }}
{{- toJson $args }}
{{- end }}

{{- /* -m, -c, -t and -p. Arguments: config, memory, port. */}}
{{- define "larder.sizeArgs" -}}
{{- $args := list "-m" .memory "-c" (.config.maxConnections | int | toString) "-t" (.config.threads | int | toString) }}
{{- if ne .port "11211" }}
  {{- $args = concat $args (list "-p" .port) }}
{{- end }}
{{- toJson $args }}
{{- end }}

{{- define "larder.server.args" -}}
{{- $v := .Values }}
{{- $args := include "larder.sizeArgs" (dict "config" $v.config "memory" (include "larder.server.memory" .) "port" (include "larder.port" .)) | fromJsonArray }}
{{- with $v.config.maxItemSize }}
  {{- $args = concat $args (list "-I" (toString .)) }}
{{- end }}
{{- with int $v.config.verbosity }}
  {{- $args = append $args (repeat . "v" | printf "-%s") }}
{{- end }}
{{- if $v.memoryFile.enabled }}
  {{- $args = concat $args (list "-e" "/cache/items") }}
{{- end }}
{{- $args = concat $args (include "larder.persistenceArgs" . | fromJsonArray) }}
{{- if $v.near.enabled }}
  {{- $args = concat $args (list "--followers" ($v.near.followers | int | toString)) }}
{{- end }}
{{- if and $v.discovery.enabled (eq $v.discovery.source "names") }}
  {{- $args = append $args "--cluster-file=/etc/larder/cluster/servers" }}
{{- else if $v.discovery.enabled }}
  {{- $name := printf "%s.%s.svc.%s" (include "larder.fullname" .) (include "larder.namespace" .) $v.clusterDomain }}
  {{- $args = append $args (printf "--cluster-dns=%s:%s" $name (include "larder.port" .)) }}
{{- end }}
{{- $args = concat $args (include "larder.commonArgs" . | fromJsonArray) $v.config.extraArgs }}
{{- toYaml $args }}
{{- end }}

{{- define "larder.persistenceArgs" -}}
{{- $p := .Values.persistence }}
{{- $args := list }}
{{- $ttl := $p.restoreTtlSeconds }}
{{- if not $p.enabled }}
{{- else if eq $p.mode "tier" }}
  {{- $size := printf "%dm" (divf (include "larder.tierBytes" .) 1048576 | floor | int) }}
  {{- $args = list "--tier-path" "/data/items" "--tier-size" $size "--tier-mode" $p.tier.mode "--tier-stop-secs" ($p.tier.stopSeconds | int | toString) }}
  {{- with $p.tier.durability }}
    {{- $args = concat $args (list "--durability" .) }}
  {{- end }}
  {{- if eq (toString $ttl) "auto" }}
    {{- $ttl = eq $p.tier.mode "store" | ternary 0 300 }}
  {{- end }}
{{- else }}
  {{- $args = list "--dump=/data/items.dump" (printf "--dump-secs=%d" (int $p.dump.seconds)) (printf "--restore-secs=%d" (int $p.dump.restoreSeconds)) }}
  {{- if eq (toString $ttl) "auto" }}
    {{- $ttl = 300 }}
  {{- end }}
{{- end }}
{{- if and $p.enabled (int $ttl) }}
  {{- $args = append $args (printf "--restore-ttl=%d" (int $ttl)) }}
{{- end }}
{{- toJson $args }}
{{- end }}

{{- /* A sidecar is in a pod of another chart, so its container also has the fields of the pod. */}}
{{- define "larder.containerSecurity" -}}
{{- $context := dict }}
{{- if .Values.containerSecurityContext.enabled }}
  {{- $context = omit .Values.containerSecurityContext "enabled" }}
{{- end }}
{{- if and .Values.near.enabled (eq .Values.near.kind "Sidecar") .Values.podSecurityContext.enabled }}
  {{- $pod := pick .Values.podSecurityContext "runAsNonRoot" "runAsUser" "runAsGroup" "seccompProfile" }}
  {{- $context = merge (dict) $context $pod }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- /* Fields of a container that servers and near caches share. */}}
{{- define "larder.containerFields" -}}
image: {{ include "larder.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with include "larder.containerSecurity" . | fromYaml }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
# /health answers while larderd starts, also if it reads a disk for a long time. /ready
# keeps clients away during the start, and while the server is drained.
{{- range $probe, $path := dict "startupProbe" "/health" "livenessProbe" "/health" "readinessProbe" "/ready" }}
{{- with index $.Values $probe }}
{{- if .enabled }}
{{ $probe }}:
  httpGet: {path: {{ $path }}, port: admin}
  {{- omit . "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
lifecycle:
  preStop:
    exec:
      command: [larder, drain, --wait, {{ .Values.drain.waitSeconds | int | toString | quote }}]
{{- end }}

{{- /* Fields of a pod that servers and near caches share. */}}
{{- define "larder.podFields" -}}
serviceAccountName: {{ include "larder.serviceAccount" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automountServiceAccountToken }}
# With these links a Service named larder would set LARDER_PORT, which is an option of larderd.
enableServiceLinks: false
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- include "larder.pullSecrets" . }}
{{- if .Values.podSecurityContext.enabled }}
securityContext:
  {{- omit .Values.podSecurityContext "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "larder.secretMounts" -}}
- {name: run, mountPath: /run/larder}
{{- if .Values.auth.enabled }}
- {name: users, mountPath: /etc/larder/users, readOnly: true}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/larder/tls, readOnly: true}
{{- end }}
{{- if .Values.admin.existingSecret }}
- {name: admin, mountPath: /etc/larder/admin, readOnly: true}
{{- end }}
{{- end }}

{{- /* The group of the volumes reads these files: 288 is 0440. */}}
{{- define "larder.secretVolumes" -}}
# For the admin socket, on which the tool larder in the container may do everything.
- name: run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- if .Values.auth.enabled }}
- name: users
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 288
    items: [{key: {{ .Values.auth.key | quote }}, path: users.toml}]
{{- end }}
{{- with .Values.tls }}
{{- if .enabled }}
- name: tls
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 288
    items:
      - {key: {{ .certFilename | quote }}, path: tls.crt}
      - {key: {{ .certKeyFilename | quote }}, path: tls.key}
      {{- with .certCAFilename }}
      - {key: {{ . | quote }}, path: ca.crt}
      {{- end }}
{{- end }}
{{- end }}
{{- if .Values.admin.existingSecret }}
- name: admin
  secret:
    secretName: {{ .Values.admin.existingSecret }}
    defaultMode: 288
    items: [{key: {{ .Values.admin.key | quote }}, path: tokens}]
{{- end }}
{{- end }}
