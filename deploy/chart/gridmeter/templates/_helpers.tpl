{{- define "gridmeter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of a component: list $ "accounting". */}}
{{- define "gridmeter.selectorLabels" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ default $.Chart.Name $.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "gridmeter.labels" -}}
{{- $ := index . 0 -}}
{{ include "gridmeter.selectorLabels" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Of an image: list $ .Values.accounting.image. */}}
{{- define "gridmeter.image" -}}
{{- $image := index . 1 -}}
image: {{ printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}

{{- define "gridmeter.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods may run: .Values.accounting or .Values.agent. */}}
{{- define "gridmeter.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A value as text. Helm reads every number as a floating one: 7776000 would become 7.776e+06. */}}
{{- define "gridmeter.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{/* The port that a URL is reached at. */}}
{{- define "gridmeter.portOf" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- if $port }}{{ $port }}{{ else if eq $url.scheme "https" }}443{{ else }}80{{ end -}}
{{- end -}}

{{/* Egress of a network policy to DNS and to these TCP ports, a list of texts. */}}
{{- define "gridmeter.egress" -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
{{- /* A rule without ports would allow them all. */ -}}
{{- if . }}
- ports:
{{- range (uniq .) }}
    - { protocol: TCP, port: {{ . }} }
{{- end }}
{{- end }}
{{- end -}}
