{{- /* Values that each are valid, but not together. */}}
{{- define "larder.checks" -}}
{{- $v := .Values }}
{{- if and $v.auth.enabled (not $v.auth.existingSecret) }}
  {{- fail "auth.existingSecret is empty: name a Secret whose key auth.key has the file of users, or set auth.enabled to false" }}
{{- end }}
{{- if and $v.tls.enabled (not $v.tls.existingSecret) }}
  {{- fail "tls.existingSecret is empty: name a Secret with a certificate and its key, or set tls.enabled to false" }}
{{- end }}
{{- if and (ne $v.tls.clientCertificates "none") (not (and $v.tls.enabled $v.tls.certCAFilename)) }}
  {{- fail "tls.clientCertificates needs tls.enabled, and tls.certCAFilename with the authorities that sign the clients' certificates" }}
{{- end }}
{{- if and (ne (toString $v.pdb.minAvailable) "") (ne (toString $v.pdb.maxUnavailable) "") $v.pdb.create }}
  {{- fail "pdb.minAvailable and pdb.maxUnavailable are both set: set one of them to an empty string" }}
{{- end }}
{{- if and $v.metrics.podMonitor.enabled $v.metrics.serviceMonitor.enabled }}
  {{- fail "metrics.podMonitor and metrics.serviceMonitor are both enabled: each server would be scraped twice" }}
{{- end }}
{{- if and (or $v.metrics.podMonitor.enabled $v.metrics.serviceMonitor.enabled) (not $v.metrics.enabled) }}
  {{- fail "a monitor needs metrics.enabled" }}
{{- end }}
{{- if eq (int $v.admin.port) (include "larder.port" . | int) }}
  {{- fail "admin.port is the port of clients: choose another one" }}
{{- end }}
{{- if and (include "larder.hasServerFile" .) (lt (int $v.replicaCount) 1) }}
  {{- fail "discovery.source names needs at least one server: replicaCount is 0" }}
{{- end }}
{{- include "larder.checkMemory" . }}
{{- include "larder.checkPersistence" . }}
{{- include "larder.checkGrace" . }}
{{- if $v.near.enabled }}{{ include "larder.checkNear" . }}{{ end }}
{{- end }}

{{- define "larder.checkMemory" -}}
{{- $v := .Values }}
{{- if and $v.memoryFile.enabled $v.persistence.enabled }}
  {{- fail "memoryFile and persistence are both enabled: larderd keeps the items in one place, so choose one of them" }}
{{- end }}
{{- if and $v.memoryFile.enabled (not (include "larder.server.budget" . | fromJson).limit) (hasSuffix "%" (toString $v.config.memoryLimit)) }}
  {{- fail "memoryFile needs a size: set resources.limits.memory, or config.memoryLimit to a number of MiB" }}
{{- end }}
{{- end }}

{{- define "larder.checkPersistence" -}}
{{- $p := .Values.persistence }}
{{- if and $p.enabled (eq $p.mode "tier") }}
  {{- $volume := include "larder.bytes" $p.size | float64 }}
  {{- $tier := include "larder.tierBytes" . | float64 }}
  {{- if gt $tier (mulf $volume 0.95) }}
    {{- printf "persistence.tier.size of %v does not fit on a volume of persistence.size %v: the file system needs 5 %% of it" $p.tier.size $p.size | fail }}
  {{- end }}
  {{- if lt $tier 33554432.0 }}
    {{- printf "persistence.tier.size must be 32Mi or more, and is %d bytes: raise it or persistence.size" (int64 $tier) | fail }}
  {{- end }}
  {{- if and $p.tier.durability (ne $p.tier.mode "store") }}
    {{- fail "persistence.tier.durability is for persistence.tier.mode store: a cache does not survive a crash" }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "larder.checkGrace" -}}
{{- if le (int .Values.drain.waitSeconds) (int .Values.drain.graceSeconds) }}
  {{- fail "drain.waitSeconds must be greater than drain.graceSeconds: larderd closes connections only after the grace period" }}
{{- end }}
{{- with .Values.terminationGracePeriodSeconds }}
  {{- $needed := include "larder.stopSeconds" $ | int }}
  {{- if le (int .) $needed }}
    {{- printf "terminationGracePeriodSeconds is %d: preStop and the stop of larderd take up to %d, so set more, or null" (int .) $needed | fail }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "larder.checkNear" -}}
{{- $v := .Values }}
{{- $count := int $v.replicaCount }}
{{- if or (lt $count 1) (gt $count 64) }}
  {{- printf "near.enabled needs 1 to 64 servers, and replicaCount is %d" $count | fail }}
{{- end }}
{{- if and $v.auth.enabled (not $v.near.originLogin.existingSecret) }}
  {{- fail "near.originLogin.existingSecret is empty: with auth.enabled, near caches log in at the servers" }}
{{- end }}
{{- if and $v.tls.enabled (not $v.tls.certCAFilename) }}
  {{- fail "tls.certCAFilename is empty: near caches need the authorities that sign the servers' certificate" }}
{{- end }}
{{- if eq $v.tls.clientCertificates "required" }}
  {{- fail "near caches have no certificate for the servers: set tls.clientCertificates to optional or none" }}
{{- end }}
{{- end }}
