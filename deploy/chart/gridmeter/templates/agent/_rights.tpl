{{/* "true" unless the agent's file turns the probe off: list $ "lsof". docker-logs is off until it has a marker. */}}
{{- define "gridmeter.agent.on" -}}
{{- $ := index . 0 -}}
{{- $name := index . 1 -}}
{{- $probe := index (default (dict) $.Values.agent.config.probes) $name | default (dict) -}}
{{- $isOff := and (hasKey $probe "enabled") (has (toString $probe.enabled | lower) (list "false" "no" "n" "off" "0")) -}}
{{- $isIdle := and (eq $name "docker-logs") (not $probe.marker) -}}
{{- if not (or $isOff $isIdle) }}true{{ end -}}
{{- end -}}

{{/* "true" if one of the probes is on: list $ "ps" "lsof". */}}
{{- define "gridmeter.agent.any" -}}
{{- $ := index . 0 -}}
{{- $on := "" -}}
{{- range rest . }}{{ if include "gridmeter.agent.on" (list $ .) }}{{ $on = "true" }}{{ end }}{{ end -}}
{{- $on -}}
{{- end -}}

{{- define "gridmeter.agent.gpus" -}}
{{- include "gridmeter.agent.any" (list . "nvidia-smi" "amd-smi" "rocm-smi") -}}
{{- end -}}

{{- define "gridmeter.agent.docker" -}}
{{- include "gridmeter.agent.any" (list . "docker-daemon" "docker-stats" "docker-inspect" "docker-logs" "lsof") -}}
{{- end -}}

{{/* The node's processes: for ps and lsof, for the processes that hold GPUs, and to enter the node's mounts. */}}
{{- define "gridmeter.agent.hostPID" -}}
{{- include "gridmeter.agent.any" (list . "ps" "lsof" "nvidia-smi" "amd-smi" "rocm-smi" "crictl-stats") -}}
{{- end -}}

{{- define "gridmeter.agent.hostNetwork" -}}
{{- include "gridmeter.agent.on" (list . "iftop") -}}
{{- end -}}

{{/* Capabilities by probe, where the container is not privileged. */}}
{{- define "gridmeter.agent.capabilities" -}}
{{- $added := list -}}
{{- if include "gridmeter.agent.on" (list . "lsof") }}{{ $added = concat $added (list "SYS_ADMIN" "SYS_PTRACE" "DAC_READ_SEARCH") }}{{ end -}}
{{- if include "gridmeter.agent.on" (list . "ps") }}{{ $added = concat $added (list "SYS_PTRACE" "DAC_READ_SEARCH") }}{{ end -}}
{{- if include "gridmeter.agent.on" (list . "iftop") }}{{ $added = concat $added (list "NET_RAW" "NET_ADMIN") }}{{ end -}}
{{- if include "gridmeter.agent.on" (list . "crictl-stats") }}{{ $added = concat $added (list "SYS_ADMIN" "SYS_PTRACE" "SYS_CHROOT") }}{{ end -}}
{{- uniq $added | sortAlpha | toJson -}}
{{- end -}}

{{- define "gridmeter.agent.listen" -}}
{{- /* YAML reads an unquoted off as false. */ -}}
{{- $listen := .Values.agent.config.listen -}}
{{- if kindIs "bool" $listen }}{{ ternary ":9102" "off" $listen }}{{ else }}{{ default ":9102" $listen }}{{ end -}}
{{- end -}}

{{/* The port's number; empty where there is none. */}}
{{- define "gridmeter.agent.port" -}}
{{- $listen := include "gridmeter.agent.listen" . -}}
{{- if ne $listen "off" }}{{ regexFind "[0-9]+$" $listen }}{{ end -}}
{{- end -}}

{{- define "gridmeter.agent.gateway" -}}
{{- with .Values.agent.config.pushgateway }}{{ .url }}{{ end -}}
{{- end -}}

{{- define "gridmeter.agent.checked" -}}
{{- $agent := .Values.agent -}}
{{- $faults := list -}}
{{- $listen := include "gridmeter.agent.listen" . -}}
{{- $isLocal := or (hasPrefix "127." $listen) (hasPrefix "[::1]" $listen) (hasPrefix "localhost" $listen) -}}
{{- $isScraped := or $agent.serviceMonitor.enabled $agent.podMonitor.enabled -}}
{{- if and $isLocal (or $isScraped (not (include "gridmeter.agent.hostNetwork" .))) -}}
{{- $faults = append $faults (printf "agent.config.listen is %s, which nothing outside the pod reaches, neither the kubelet's probes nor a monitor: write \":9102\" or off." $listen) -}}
{{- end -}}
{{- if and $isScraped (not (include "gridmeter.agent.port" .)) -}}
{{- $faults = append $faults "agent.config.listen is off, so there is nothing for agent.serviceMonitor or agent.podMonitor to scrape." -}}
{{- end -}}
{{- if and $agent.serviceMonitor.enabled $agent.podMonitor.enabled -}}
{{- $faults = append $faults "agent.serviceMonitor and agent.podMonitor are both enabled: every series would be there twice. Take one." -}}
{{- end -}}
{{- with $agent.config.pushgateway -}}
{{- if regexMatch "://[^/]*@" (toString .url) -}}
{{- $faults = append $faults "agent.config.pushgateway.url holds credentials, which would stand in a ConfigMap: put the password into a Secret, name that in agent.existingSecret, and set passwordFile to /etc/gridmeter/secret/KEY." -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\nNothing was installed:\n- %s\n" (join "\n- " $faults)) -}}
{{- end -}}
{{- end -}}
