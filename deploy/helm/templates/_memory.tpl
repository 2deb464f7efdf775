{{- /* The bytes of a Kubernetes quantity, such as 1.5Gi, 512M or 1e9. */}}
{{- define "larder.bytes" -}}
{{- $text := toString . }}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?" $text }}
{{- $factors := dict "" 1 "m" 0.001
      "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
      "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776
      "Pi" 1125899906842624 "Ei" 1152921504606846976 }}
{{- $suffix := trimPrefix $number $text }}
{{- if or (not $number) (not (hasKey $factors $suffix)) }}
  {{- fail (printf "%q is not a quantity: write a number and Ki, Mi, Gi, k, M or G" $text) }}
{{- end }}
{{- mulf (float64 $number) (get $factors $suffix) | floor | int64 }}
{{- end }}

{{- /* MiB that a server needs in addition to -m: the formula of docs/operating.md. Arguments:
config, root. */}}
{{- define "larder.overhead" -}}
{{- $buffers := regexFind "read_buf_mem_limit=[1-9][0-9]*" (join "," .config.extraArgs) }}
{{- $buffers = $buffers | trimPrefix "read_buf_mem_limit=" | default "64" | int }}
{{- $kib := ternary 6 2 .root.Values.tls.enabled | mul .config.maxConnections }}
{{- add $buffers 16 (mul 4 .config.threads) (divf $kib 1024 | ceil | int) }}
{{- end }}

{{- /* MiB that a percentage of the memory limit leaves for -m. Arguments: config, limit, path, root.
*/}}
{{- define "larder.share" -}}
{{- $percent := trimSuffix "%" .config.memoryLimit | float64 }}
{{- $all := mulf (include "larder.bytes" .limit | float64) (divf $percent 100) }}
{{- $left := sub (divf $all 1048576 | floor | int) (include "larder.overhead" . | int) }}
{{- if lt $left 8 }}
  {{- printf "%sresources.limits.memory is %v: %s of it leave %d MiB for items, and larderd does not start with less than 8. Raise it, or set %s to a number of MiB" .prefix .limit .config.memoryLimit $left .path | fail }}
{{- end }}
{{- $left }}
{{- end }}

{{- /* The argument of -m. Arguments: config, limit, path, prefix, root; fixed for a number in any
case. */}}
{{- define "larder.memory" -}}
{{- $limit := toString .config.memoryLimit }}
{{- if not (hasSuffix "%" $limit) }}
  {{- int .config.memoryLimit }}
{{- else if not .limit }}
  {{- 64 }}
{{- else }}
  {{- $left := include "larder.share" . }}
  {{- ternary $left $limit .fixed }}
{{- end }}
{{- end }}

{{- define "larder.server.memory" -}}
{{- include "larder.memory" (include "larder.server.budget" . | fromJson | merge (dict "root" .)) }}
{{- end }}

{{- define "larder.near.memory" -}}
{{- include "larder.memory" (include "larder.near.budget" . | fromJson | merge (dict "root" .)) }}
{{- end }}

{{- /* The arguments of larder.memory for a server, and for a near cache, without root. */}}
{{- define "larder.server.budget" -}}
{{- $limits := .Values.resources.limits | default dict }}
{{- dict "config" .Values.config "limit" ($limits.memory | default "") "prefix" ""
      "path" "config.memoryLimit" "fixed" .Values.memoryFile.enabled | toJson }}
{{- end }}

{{- define "larder.near.budget" -}}
{{- $limits := .Values.near.resources.limits | default dict }}
{{- dict "config" .Values.near "limit" ($limits.memory | default "") "prefix" "near."
      "path" "near.memoryLimit" "fixed" false | toJson }}
{{- end }}

{{- /* Bytes of the log of a disk tier. */}}
{{- define "larder.tierBytes" -}}
{{- $volume := include "larder.bytes" .Values.persistence.size | float64 }}
{{- if .Values.persistence.tier.size }}
  {{- include "larder.bytes" .Values.persistence.tier.size }}
{{- else }}
  {{- divf (mulf $volume 0.8) 1048576 | floor | int64 | mul 1048576 }}
{{- end }}
{{- end }}
