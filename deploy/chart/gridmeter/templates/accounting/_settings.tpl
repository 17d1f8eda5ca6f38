{{/* The settings as variables of the environment: the chart's, and over them the user's. */}}
{{- define "gridmeter.accounting.settings" -}}
{{- $accounting := .Values.accounting -}}
{{- $send := $accounting.send -}}
{{- $own := dict -}}
{{- if $accounting.storage.enabled -}}
{{- $_ := set $own "LEDGER_PATH" "/data/ledger" -}}
{{- $_ := set $own "OUTPUT_PATH" "dirq:/data/outgoing" -}}
{{- end -}}
{{- if $accounting.tenants -}}
{{- $_ := set $own "TENANTS_FILE" "/etc/gridmeter/tenants/tenants.yaml" -}}
{{- end -}}
{{- if or $accounting.prometheus.ca.existingConfigMap $accounting.prometheus.ca.existingSecret -}}
{{- $_ := set $own "PROMETHEUS_CA_FILE" "/etc/gridmeter/prometheus-ca/ca.pem" -}}
{{- end -}}
{{- with $accounting.metrics.pushgateway.url -}}
{{- $_ := set $own "PUSHGATEWAY_URL" . -}}
{{- end -}}
{{- if eq (include "gridmeter.accounting.sends" .) "ams" -}}
{{- $_ := set $own "AMS_HOST" $send.ams.host -}}
{{- $_ := set $own "AMS_PORT" $send.ams.port -}}
{{- $_ := set $own "AMS_AUTHN_PORT" $send.ams.authnPort -}}
{{- $_ := set $own "AMS_PROJECT" $send.ams.project -}}
{{- $_ := set $own "AMS_TOPIC" $send.ams.topic -}}
{{- $_ := set $own "AMS_CERTIFICATE" "/etc/gridmeter/host/certificate.pem" -}}
{{- $_ := set $own "AMS_KEY" "/etc/gridmeter/host/key.pem" -}}
{{- if $send.tokenKey -}}
{{- $_ := set $own "AMS_TOKEN_FILE" "/etc/gridmeter/host/token" -}}
{{- end -}}
{{- if $send.ca.existingConfigMap -}}
{{- $_ := set $own "AMS_CA_FILE" "/etc/gridmeter/ams-ca/ca.pem" -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := merge (dict) $accounting.config $own }}
{{ $name }}: {{ include "gridmeter.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* What sends: ams, ssmsend or none. */}}
{{- define "gridmeter.accounting.sends" -}}
{{- if .Values.accounting.dryRun }}none{{ else }}{{ .Values.accounting.send.method }}{{ end -}}
{{- end -}}

{{/* Says all that is missing or does not go together, before anything is installed. */}}
{{- define "gridmeter.accounting.checked" -}}
{{- $accounting := .Values.accounting -}}
{{- $send := $accounting.send -}}
{{- $sends := include "gridmeter.accounting.sends" . -}}
{{- $config := $accounting.config -}}
{{- $faults := list -}}
{{- if not (or $accounting.tenants $accounting.extraEnv $accounting.extraEnvFrom) -}}
{{- range $name := list "SITE_NAME" "SUBMIT_HOST" "NAMESPACE" "VO_NAME" "PROMETHEUS_SERVER" -}}
{{- if not (index $config $name) -}}
{{- $faults = append $faults (printf "accounting.config.%s is missing." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasKey $config "PROMETHEUS_AUTH_HEADER" -}}
{{- $faults = append $faults "accounting.config.PROMETHEUS_AUTH_HEADER would stand in a ConfigMap: put it into a Secret, and name that in accounting.prometheus.auth." -}}
{{- end -}}
{{- range $name := list "PROMETHEUS_SERVER" "PUSHGATEWAY_URL" -}}
{{- if regexMatch "://[^/]*@" (toString (index $config $name)) -}}
{{- $faults = append $faults (printf "accounting.config.%s holds credentials, which would stand in a ConfigMap: put the header into a Secret, and name that in auth.existingSecret." $name) -}}
{{- end -}}
{{- end -}}
{{- range $tenant := $accounting.tenants -}}
{{- if or (hasKey $tenant "PROMETHEUS_AUTH_HEADER") (regexMatch "://[^/]*@" (toString $tenant.PROMETHEUS_SERVER)) -}}
{{- $faults = append $faults (printf "the tenant %s of accounting.tenants holds credentials, which would stand in a ConfigMap: give it PROMETHEUS_TOKEN_FILE, and mount the file with accounting.extraVolumes." $tenant.name) -}}
{{- end -}}
{{- end -}}
{{- if and $accounting.prometheus.auth.existingSecret (not $accounting.prometheus.auth.key) -}}
{{- $faults = append $faults "accounting.prometheus.auth.key is missing: which key of the Secret holds the header." -}}
{{- end -}}
{{- $hasPair := and $send.x509cert $send.x509key -}}
{{- if and (ne $sends "none") (not (or $send.existingSecret $hasPair (and (eq $sends "ams") $send.tokenKey))) -}}
{{- $faults = append $faults "accounting.send.existingSecret is missing: a Secret with the host certificate and its key. (Or give both as x509cert and x509key; or set accounting.send.method to none.)" -}}
{{- end -}}
{{- if and $send.existingSecret (or $send.x509cert $send.x509key) -}}
{{- $faults = append $faults "accounting.send has existingSecret, and x509cert or x509key: which of them counts? Take one away." -}}
{{- end -}}
{{- if not $accounting.storage.enabled -}}
{{- range $name := list "LEDGER_PATH" "OUTPUT_PATH" -}}
{{- if not (hasPrefix "s3://" (toString (index $config $name))) -}}
{{- $faults = append $faults (printf "accounting.storage.enabled is false, so accounting.config.%s must be s3://BUCKET/PREFIX: nothing else outlives the pod." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $sends "ssmsend" -}}
{{- if not $send.ssmsend.image.repository -}}
{{- $faults = append $faults "accounting.send.ssmsend.image.repository is missing: an image with ssmsend (apel-ssm)." -}}
{{- end -}}
{{- if not $send.ssmsend.image.tag -}}
{{- $faults = append $faults "accounting.send.ssmsend.image.tag is missing." -}}
{{- end -}}
{{- if hasKey $config "OUTPUT_PATH" -}}
{{- $faults = append $faults "accounting.config.OUTPUT_PATH is set, but ssmsend reads dirq:/data/outgoing: take it away." -}}
{{- end -}}
{{- if not $accounting.storage.enabled -}}
{{- $faults = append $faults "accounting.send.method is ssmsend, which reads the volume: set accounting.storage.enabled to true." -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\nNothing was installed:\n- %s\n" (join "\n- " $faults)) -}}
{{- end -}}
{{- end -}}
