{{/* What every pod of the accounting is, but for containers and volumes. */}}
{{- define "gridmeter.accounting.pod" -}}
{{- $accounting := .Values.accounting -}}
restartPolicy: Never
# It asks nothing of Kubernetes.
automountServiceAccountToken: false
# A Service called pushgateway must not set a variable here.
enableServiceLinks: false
securityContext: {{ toYaml $accounting.podSecurityContext | nindent 2 }}
{{- include "gridmeter.pullSecrets" . }}
{{- include "gridmeter.placement" $accounting }}
{{- end -}}

{{/* A container of the accounting's image: list $ name list-of-arguments. */}}
{{- define "gridmeter.accounting.container" -}}
{{- $ := index . 0 -}}
{{- $accounting := $.Values.accounting -}}
- name: {{ index . 1 }}
  {{- include "gridmeter.image" (list $ $accounting.image) | nindent 2 }}
  args: {{ toYaml (index . 2) | nindent 4 }}
  envFrom:
    - configMapRef: { name: {{ include "gridmeter.fullname" $ }}-accounting }
    {{- with $accounting.extraEnvFrom }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or $accounting.prometheus.auth.existingSecret $accounting.metrics.pushgateway.auth.existingSecret $accounting.extraEnv }}
  env:
    {{- with $accounting.prometheus.auth }}
    {{- if .existingSecret }}
    - name: PROMETHEUS_AUTH_HEADER
      valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .key }} } }
    {{- end }}
    {{- end }}
    {{- with $accounting.metrics.pushgateway.auth }}
    {{- if .existingSecret }}
    - name: PUSHGATEWAY_AUTH_HEADER
      valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .key }} } }
    {{- end }}
    {{- end }}
    {{- with $accounting.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  resources: {{ toYaml $accounting.resources | nindent 4 }}
  securityContext: {{ toYaml $accounting.securityContext | nindent 4 }}
  volumeMounts:
    - { name: tmp, mountPath: /tmp }
    {{- if $accounting.storage.enabled }}
    - { name: data, mountPath: /data }
    {{- end }}
    {{- if $accounting.tenants }}
    - { name: tenants, mountPath: /etc/gridmeter/tenants, readOnly: true }
    {{- end }}
    {{- if or $accounting.prometheus.ca.existingConfigMap $accounting.prometheus.ca.existingSecret }}
    - { name: prometheus-ca, mountPath: /etc/gridmeter/prometheus-ca, readOnly: true }
    {{- end }}
    {{- if and (eq (include "gridmeter.accounting.sends" $) "ams") (ne (index . 1) "manual") }}
    - { name: host, mountPath: /etc/gridmeter/host, readOnly: true }
    {{- if $accounting.send.ca.existingConfigMap }}
    - { name: ams-ca, mountPath: /etc/gridmeter/ams-ca, readOnly: true }
    {{- end }}
    {{- end }}
    {{- if and $accounting.manualRecords (eq (index . 1) "manual") }}
    - { name: manual, mountPath: /etc/gridmeter/manual, readOnly: true }
    {{- end }}
    {{- if and (eq (include "gridmeter.accounting.sends" $) "ssmsend") (has (index . 1) (list "account" "outcome")) }}
    - { name: outcome, mountPath: /run/gridmeter }
    {{- end }}
    {{- with $accounting.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* list $ "ams": a pod that speaks to AMS, by itself or with ssmsend, has the host certificate; others do not. */}}
{{- define "gridmeter.accounting.volumes" -}}
{{- $sends := index . 1 -}}
{{- with index . 0 -}}
{{- $accounting := .Values.accounting -}}
{{- $send := $accounting.send -}}
volumes:
  - name: tmp
    emptyDir: { sizeLimit: 64Mi }
  {{- if $accounting.storage.enabled }}
  # Ledger and queue are on one volume, which outlives the pod: what was counted and not yet sent is not lost with it.
  - name: data
    persistentVolumeClaim:
      claimName: {{ default (printf "%s-accounting" (include "gridmeter.fullname" .)) $accounting.storage.existingClaim }}
  {{- end }}
  {{- if $accounting.tenants }}
  - name: tenants
    configMap: { name: {{ include "gridmeter.fullname" . }}-tenants }
  {{- end }}
  {{- with $accounting.prometheus.ca }}
  {{- if .existingSecret }}
  - name: prometheus-ca
    secret:
      secretName: {{ .existingSecret }}
      items: [{ key: {{ .key }}, path: ca.pem }]
  {{- else if .existingConfigMap }}
  - name: prometheus-ca
    configMap:
      name: {{ .existingConfigMap }}
      items: [{ key: {{ .key }}, path: ca.pem }]
  {{- end }}
  {{- end }}
  {{- if ne $sends "none" }}
  # The pod's group may read the key, and nobody else.
  - name: host
    secret:
      secretName: {{ default (printf "%s-host-certificate" (include "gridmeter.fullname" .)) $send.existingSecret }}
      defaultMode: 288 # 0440
      items:
        - { key: {{ $send.certificateKey }}, path: certificate.pem }
        - { key: {{ $send.keyKey }}, path: key.pem }
        {{- with $send.tokenKey }}
        - { key: {{ . }}, path: token }
        {{- end }}
  {{- end }}
  {{- if and (eq $sends "ams") $send.ca.existingConfigMap }}
  - name: ams-ca
    configMap:
      name: {{ $send.ca.existingConfigMap }}
      items: [{ key: {{ $send.ca.key }}, path: ca.pem }]
  {{- end }}
  {{- with $accounting.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end -}}
