"""Definitions of kinds and configurations of webhooks: what administrators install."""

ADMIN = """
CustomResourceDefinition: Makes the server serve a kind.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec CustomResourceDefinitionSpec: What is wanted.
  status CustomResourceDefinitionStatus: What was last seen.
CustomResourceDefinitionSpec: How a kind is served.
  group string: The group.
  names CustomResourceDefinitionNames: The names of the kind.
  scope string: Namespaced or Cluster.
  versions [CustomResourceDefinitionVersion]: The versions.
  conversion CustomResourceConversion: How versions turn into each other.
  preserveUnknownFields bool: Not in use; false.
CustomResourceDefinitionNames: The names of a kind.
  plural string: As in URLs.
  singular string: For one object.
  shortNames [string]: Short forms.
  kind string: As in objects.
  listKind string: As in lists.
  categories [string]: Groups of kinds that are listed together.
CustomResourceDefinitionVersion: One version of a kind.
  name string: The version.
  served bool: Whether it is served.
  storage bool: Whether objects are stored in it.
  deprecated bool: Whether clients are warned.
  deprecationWarning string: With which words.
  schema CustomResourceValidation: The fields.
  subresources CustomResourceSubresources: Parts with a life of their own.
  additionalPrinterColumns [CustomResourceColumnDefinition]: Columns of `kubectl get`.
  selectableFields [SelectableField]: Fields that field selectors may name.
CustomResourceValidation: The fields of a version.
  openAPIV3Schema JSONSchemaProps: The schema.
CustomResourceSubresources: Parts with a life of their own.
  status any: The status.
  scale CustomResourceSubresourceScale: The number of replicas.
CustomResourceSubresourceScale: Where the number of replicas is.
  specReplicasPath string: The wanted number.
  statusReplicasPath string: The seen number.
  labelSelectorPath string: The selector of the pods.
CustomResourceColumnDefinition: A column of `kubectl get`.
  name string: The title.
  type string: The type of the values.
  format string: More about the type.
  description string: What it shows.
  priority int32: Above 0 only in wide output.
  jsonPath string: Where the value is.
SelectableField: A field that field selectors may name.
  jsonPath string: Where it is.
CustomResourceConversion: How versions turn into each other.
  strategy string: None or Webhook.
  webhook WebhookConversion: Who is asked.
WebhookConversion: A webhook that converts.
  clientConfig WebhookClientConfig: Where it is.
  conversionReviewVersions [string]: The versions it speaks.
CustomResourceDefinitionStatus: What became of a definition.
  conditions [Condition]: NamesAccepted, Established and the like.
  acceptedNames CustomResourceDefinitionNames: The names that it got.
  storedVersions [string]: All versions in which objects were ever stored.
  observedGeneration int64: The generation that was looked at.
JSONSchemaProps: A schema.
  id string: Not in use.
  description string: What the value is.
  type string: The JSON type.
  format string: More about the type.
  title string: A title.
  default json: What a missing value is.
  maximum number: The greatest number.
  exclusiveMaximum bool: Whether it must be less.
  minimum number: The least number.
  exclusiveMinimum bool: Whether it must be more.
  maxLength int64: The longest text.
  minLength int64: The shortest text.
  pattern string: A pattern of texts.
  maxItems int64: The longest list.
  minItems int64: The shortest list.
  uniqueItems bool: Not in use.
  multipleOf number: A factor of numbers.
  enum [json]: All values.
  maxProperties int64: The most fields.
  minProperties int64: The fewest fields.
  required [string]: Fields that must be there.
  items JSONSchemaProps: The items of a list.
  allOf [JSONSchemaProps]: All must hold.
  oneOf [JSONSchemaProps]: Exactly one must hold.
  anyOf [JSONSchemaProps]: At least one must hold.
  not JSONSchemaProps: Must not hold.
  properties {JSONSchemaProps}: The fields.
  additionalProperties JSONSchemaProps|bool: All other fields.
  patternProperties {JSONSchemaProps}: Not in use.
  dependencies any: Not in use.
  additionalItems JSONSchemaProps|bool: Not in use.
  definitions {JSONSchemaProps}: Not in use.
  externalDocs any: Where more is said.
  example json: An example.
  nullable bool: Whether null is a value.
"""

# Words of a schema that are no names in the notation.
SCHEMA_EXTENSIONS = {
    "$ref": "string",
    "$schema": "string",
    "x-kubernetes-preserve-unknown-fields": "bool",
    "x-kubernetes-embedded-resource": "bool",
    "x-kubernetes-int-or-string": "bool",
    "x-kubernetes-list-map-keys": "[string]",
    "x-kubernetes-list-type": "string",
    "x-kubernetes-map-type": "string",
    "x-kubernetes-validations": "[ValidationRule]",
}

WEBHOOKS = """
ValidationRule: A rule of a schema.
  rule string: The expression.
  message string: What is said when it does not hold.
  messageExpression string: An expression for that.
  reason string: The reason that is given.
  fieldPath string: The field that is named.
  optionalOldSelf bool: Whether oldSelf may be missing.
MutatingWebhookConfiguration: Webhooks that change objects on their way in.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  webhooks [MutatingWebhook] key=name: The webhooks.
ValidatingWebhookConfiguration: Webhooks that judge objects on their way in.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  webhooks [ValidatingWebhook] key=name: The webhooks.
ValidatingWebhook: One webhook.
  name string: Its full name.
  clientConfig WebhookClientConfig: Where it is.
  rules [RuleWithOperations] atomic: What it is asked about.
  failurePolicy string: Fail or Ignore: what happens when it cannot be asked.
  matchPolicy string: Exact or Equivalent.
  namespaceSelector LabelSelector: In which namespaces.
  objectSelector LabelSelector: For which objects.
  sideEffects string: None or NoneOnDryRun.
  timeoutSeconds int32: For how long it is waited.
  admissionReviewVersions [string] atomic: The versions it speaks.
  matchConditions [MatchCondition] key=name: Conditions in CEL.
MutatingWebhook: One webhook.
  name string: Its full name.
  clientConfig WebhookClientConfig: Where it is.
  rules [RuleWithOperations] atomic: What it is asked about.
  failurePolicy string: Fail or Ignore: what happens when it cannot be asked.
  matchPolicy string: Exact or Equivalent.
  namespaceSelector LabelSelector: In which namespaces.
  objectSelector LabelSelector: For which objects.
  sideEffects string: None or NoneOnDryRun.
  timeoutSeconds int32: For how long it is waited.
  admissionReviewVersions [string] atomic: The versions it speaks.
  reinvocationPolicy string: Never or IfNeeded.
  matchConditions [MatchCondition] key=name: Conditions in CEL.
MatchCondition: A condition in CEL.
  name string: Its name.
  expression string: The expression.
RuleWithOperations: Requests that a webhook is asked about.
  operations [string] atomic: CREATE, UPDATE, DELETE, CONNECT or all.
  apiGroups [string] atomic: The groups.
  apiVersions [string] atomic: The versions.
  resources [string] atomic: The resources and their parts.
  scope string: Cluster, Namespaced or both.
WebhookClientConfig: Where a webhook is.
  url string: Its address.
  service ServiceReference: Its Service.
  caBundle string: The authority of its certificate, as PEM in base64.
ServiceReference: A Service.
  namespace string: Its namespace.
  name string: Its name.
  path string: The path of the URL.
  port int32: The port.
"""
