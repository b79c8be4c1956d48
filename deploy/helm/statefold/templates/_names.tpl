{{- /* Go's own functions, and toJson: a test renders the chart without Helm. */ -}}
{{- define "statefold.labels" -}}
app.kubernetes.io/name: statefold
    app.kubernetes.io/instance: {{ .Release.Name }}
    app.kubernetes.io/version: {{ printf "%q" .Chart.AppVersion }}
    app.kubernetes.io/managed-by: {{ .Release.Service }}
    helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
{{- define "statefold.secret" -}}
{{ if .Values.secrets.existing }}{{ .Values.secrets.existing }}{{ else }}{{ .Release.Name }}-settings{{ end }}
{{- end -}}
