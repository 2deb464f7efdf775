{{- /* Values that open more than the defaults, or whose effect may surprise. A line for each. */}}
{{- define "larder.warnings" -}}
{{- include "larder.warnings.network" . }}
{{- include "larder.warnings.access" . }}
{{- include "larder.warnings.rights" . }}
{{- include "larder.warnings.memory" . }}
{{- if .Values.near.enabled }}{{ include "larder.warnings.near" . }}{{ end }}
{{- end }}

{{- define "larder.warning" }}
WARNING: {{ . }}
{{ end }}

{{- define "larder.warnings.network" -}}
{{- $v := .Values }}
{{- if ne $v.service.type "ClusterIP" }}
  {{- printf "service.type %s: programs outside of the cluster can reach the servers. The NetworkPolicy still admits only networkPolicy.clients." $v.service.type | include "larder.warning" }}
  {{- if not $v.auth.enabled }}
    {{- printf "service.type %s without auth: every program that reaches the Service can read, change and remove all items. Set auth.enabled." $v.service.type | include "larder.warning" }}
  {{- end }}
  {{- if not $v.tls.enabled }}
    {{- printf "service.type %s without tls: items and passwords cross the network unencrypted. Set tls.enabled." $v.service.type | include "larder.warning" }}
  {{- end }}
  {{- if and (eq $v.service.type "LoadBalancer") (not $v.service.loadBalancerSourceRanges) }}
    {{- include "larder.warning" "service.loadBalancerSourceRanges is empty: the load balancer accepts connections from all networks." }}
  {{- end }}
{{- end }}
{{- if and (include "larder.hasFront" .) (gt (int $v.replicaCount) 1) }}
  {{- include "larder.warning" "the Service with one address sends each connection to some server, and each server has other items. Clients that shard the keys need the list of servers, or set replicaCount to 1." }}
{{- end }}
{{- if not $v.networkPolicy.enabled }}
  {{- include "larder.warning" "networkPolicy.enabled is false: every pod of the cluster can connect to the servers." }}
{{- else }}
  {{- if $v.networkPolicy.allowExternal }}
    {{- include "larder.warning" "networkPolicy.allowExternal: pods of all namespaces, and other networks, can connect to the servers." }}
  {{- end }}
  {{- if $v.networkPolicy.allowExternalEgress }}
    {{- include "larder.warning" "networkPolicy.allowExternalEgress: the pods can connect to every address." }}
  {{- end }}
  {{- if $v.networkPolicy.extraIngress }}
    {{- include "larder.warning" "networkPolicy.extraIngress: the chart does not check these rules, which can admit more clients." }}
  {{- end }}
  {{- $wide := false }}
  {{- range $v.networkPolicy.clients }}
    {{- if or (hasKey . "namespaceSelector") (hasKey . "ipBlock") }}{{ $wide = true }}{{ end }}
  {{- end }}
  {{- if and $wide (not $v.auth.enabled) }}
    {{- include "larder.warning" "networkPolicy.clients has other namespaces or networks, without auth: their programs can read, change and remove all items. Set auth.enabled." }}
  {{- end }}
{{- end }}
{{- if $v.hostNetwork }}
  {{- include "larder.warning" "hostNetwork: larderd listens on the addresses of the node, and the NetworkPolicy has no effect." }}
{{- end }}
{{- if and $v.metrics.enabled (ne $v.metrics.service.type "ClusterIP") }}
  {{- printf "metrics.service.type %s: the admin port is reachable from outside of the cluster." $v.metrics.service.type | include "larder.warning" }}
{{- end }}
{{- end }}

{{- define "larder.warnings.access" -}}
{{- $v := .Values }}
{{- if and $v.auth.enabled (not $v.tls.enabled) }}
  {{- include "larder.warning" "auth without tls: passwords cross the network unencrypted. Set tls.enabled." }}
{{- end }}
{{- if ne $v.admin.role "probe" }}
  {{- printf "admin.role %s: a request with a token may do more than probe from the network, which the token crosses unencrypted. A request from the pod itself, such as by kubectl port-forward, needs no token." $v.admin.role | include "larder.warning" }}
{{- else if $v.admin.existingSecret }}
  {{- include "larder.warning" "admin.existingSecret has no effect while admin.role is probe." }}
{{- end }}
{{- $opened := list }}
{{- range concat $v.config.extraArgs $v.near.extraArgs }}
  {{- $option := regexFind "^(-U|--udp-port|-A|--enable-shutdown|-l|--listen|--local-readers|--admin-listen|--user-metrics|--prefix-metrics)" . }}
  {{- if $option }}{{ $opened = append $opened $option }}{{ end }}
{{- end }}
{{- range concat $v.extraEnv $v.extraEnvVars }}
  {{- if hasPrefix "LARDER_" .name }}{{ $opened = append $opened .name }}{{ end }}
{{- end }}
{{- with $opened }}
  {{- join ", " . | printf "%s: the chart does not check these options, which can open more than its defaults." | include "larder.warning" }}
{{- end }}
{{- end }}

{{- define "larder.warnings.rights" -}}
{{- $v := .Values }}
{{- $pod := $v.podSecurityContext }}
{{- $container := $v.containerSecurityContext }}
{{- if not $pod.enabled }}
  {{- include "larder.warning" "podSecurityContext.enabled is false: the image decides about the user, and system calls are not filtered." }}
{{- else }}
  {{- $profile := coalesce $container.seccompProfile $pod.seccompProfile dict }}
  {{- if not (has $profile.type (list "RuntimeDefault" "Localhost")) }}
    {{- include "larder.warning" "podSecurityContext.seccompProfile: system calls are not filtered. Set its type to RuntimeDefault." }}
  {{- end }}
{{- end }}
{{- if or (eq (include "larder.user" .) "0") (not ($container.runAsNonRoot | default $pod.runAsNonRoot)) }}
  {{- include "larder.warning" "larderd may run as root: set podSecurityContext.runAsNonRoot to true, and runAsUser to 11211." }}
{{- end }}
{{- if not $container.enabled }}
  {{- include "larder.warning" "containerSecurityContext.enabled is false: the container can change its files and raise its rights." }}
{{- else }}
  {{- if $container.privileged }}
    {{- include "larder.warning" "containerSecurityContext.privileged: larderd has all rights of the node." }}
  {{- end }}
  {{- if ne (toString $container.allowPrivilegeEscalation) "false" }}
    {{- include "larder.warning" "containerSecurityContext.allowPrivilegeEscalation: programs of the container can raise their rights." }}
  {{- end }}
  {{- if not $container.readOnlyRootFilesystem }}
    {{- include "larder.warning" "containerSecurityContext.readOnlyRootFilesystem is false: the container can change its files." }}
  {{- end }}
  {{- $capabilities := $container.capabilities | default dict }}
  {{- if or $capabilities.add (not (has "ALL" ($capabilities.drop | default list))) }}
    {{- include "larder.warning" "containerSecurityContext.capabilities: larderd needs none of the rights of root. Drop ALL, and add none." }}
  {{- end }}
{{- end }}
{{- if $v.serviceAccount.automountServiceAccountToken }}
  {{- include "larder.warning" "serviceAccount.automountServiceAccountToken: the pods contain a token for the API of Kubernetes." }}
{{- end }}
{{- end }}

{{- /* Arguments: config, limit, path, prefix, extra MiB and root. */}}
{{- define "larder.warnings.budget" -}}
{{- if not .limit }}
  {{- if hasSuffix "%" (toString .config.memoryLimit) }}
    {{- printf "%sresources.limits.memory is not set, so %s of it cannot be computed: larderd starts with -m 64. Set the limit, or %s to a number of MiB." .prefix .config.memoryLimit .path | include "larder.warning" }}
  {{- end }}
{{- else if not (hasSuffix "%" (toString .config.memoryLimit)) }}
  {{- $needed := add (int .config.memoryLimit) (include "larder.overhead" .) .extra }}
  {{- if gt (mulf $needed 1048576) (include "larder.bytes" .limit | float64) }}
    {{- printf "%sresources.limits.memory is %v, but larderd can need %dMi with -m %d: the kernel ends it when it exceeds the limit." .prefix .limit $needed (int .config.memoryLimit) | include "larder.warning" }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "larder.warnings.memory" -}}
{{- $p := .Values.persistence }}
{{- if and $p.enabled .Values.discovery.enabled (eq .Values.discovery.source "dns") }}
  {{- include "larder.warning" "discovery.source dns: a rollout gives each server another address, so clients look for the keys that it restores on other servers. Set discovery.source to names." }}
{{- end }}
{{- $extra := ternary 8 0 .Values.near.enabled }}
{{- include "larder.warnings.budget" (merge (dict "root" . "extra" $extra) (include "larder.server.budget" . | fromJson)) }}
{{- if and $p.enabled (eq $p.mode "dump") }}
  {{- $budget := include "larder.server.budget" . | fromJson }}
  {{- $memory := include "larder.server.memory" . }}
  {{- if hasSuffix "%" $memory }}
    {{- $memory = include "larder.share" (merge (dict "root" .) $budget) }}
  {{- end }}
  {{- if gt (mulf $memory 1048576) (include "larder.bytes" $p.size | float64) }}
    {{- printf "persistence.size is %v, less than the %s MiB of items: a dump of a full server does not fit." $p.size $memory | include "larder.warning" }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "larder.warnings.near" -}}
{{- $near := .Values.near }}
{{- include "larder.warnings.budget" (merge (dict "root" . "extra" 0) (include "larder.near.budget" . | fromJson)) }}
{{- if and (eq $near.kind "DaemonSet") $near.socket.hostPath }}
  {{- printf "near.socket.hostPath: every pod that mounts %s of its node can connect to the near cache. The NetworkPolicy has no effect on the socket." $near.socket.hostPath | include "larder.warning" }}
{{- end }}
{{- if eq $near.socket.readers "any" }}
  {{- include "larder.warning" "near.socket.readers any: every program that can open the socket reads all copies, also with auth." }}
{{- end }}
{{- end }}
