{{/* A manifest of files/ as it is, in the release's namespace. Takes (list root path). */}}
{{- define "muster.manifest" -}}
{{- $root := first . -}}
{{- $root.Files.Get (last .) | replace "muster-system" $root.Release.Namespace -}}
{{- end -}}

{{/* The schedulerNames of Muster, with spaces between them. */}}
{{- define "muster.schedulerNames" -}}
{{- $names := list -}}
{{- range .Values.profiles }}{{ $names = append $names .schedulerName }}{{ end -}}
{{- if ne (len $names) (len (uniq $names)) -}}
{{- fail "profiles: each schedulerName may be there once" -}}
{{- end -}}
{{- join " " ($names | default (list "muster-scheduler")) -}}
{{- end -}}

{{/* The same as a list in CEL. */}}
{{- define "muster.schedulerNamesInCEL" -}}
['{{ include "muster.schedulerNames" . | splitList " " | join "', '" }}']
{{- end -}}

{{- define "muster.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration file of all processes: `config`, and what other values say. */}}
{{- define "muster.config" -}}
{{- $own := dict "namespace" .Release.Namespace -}}
{{- with .Values.profiles }}{{ $_ := set $own "profiles" . }}{{ end -}}
{{- with .Values.featureGates }}{{ $_ := set $own "featureGates" . }}{{ end -}}
{{- $webhook := dict -}}
{{- with .Values.topologyKeys }}{{ $_ := set $webhook "autoscalers" (dict "topologyKeys" .) }}{{ end -}}
{{- if include "muster.certManager" . }}{{ $_ := set $webhook "certificates" (dict "mounted" "/certificates") }}{{ end -}}
{{- with $webhook }}{{ $_ := set $own "webhook" . }}{{ end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) -}}
{{- end -}}

{{- define "muster.certManager" -}}
{{- if eq .Values.certificates.provider "cert-manager" }}true{{ end -}}
{{- end -}}

{{/* What lets cert-manager put its CA into an object. */}}
{{- define "muster.injection" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/muster-webhook
{{- end -}}

{{/* What every pod has; takes the root. */}}
{{- define "muster.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "muster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "muster.pullPolicy" -}}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end -}}

{{- define "muster.podPlaces" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The metadata of all that belongs to the hook; more annotations may follow. */}}
{{- define "muster.uninstallMeta" -}}
name: muster-uninstall
labels:
  app.kubernetes.io/name: muster-uninstall
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The metadata of all that belongs to the test; more annotations may follow. */}}
{{- define "muster.testMeta" -}}
name: muster-test
labels:
  app.kubernetes.io/name: muster-test
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
