// Code generated from api/models by make generate. DO NOT EDIT.

package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const Group = "scheduling.muster.dev"
const Version = "v1alpha3"
const SchedulerName = "muster-scheduler"
const LabelPodGroup = "scheduling.muster.dev/pod-group"
const ConditionPodGroupScheduled = "PodGroupInitiallyScheduled"
const ConditionCompositeScheduled = "CompositePodGroupInitiallyScheduled"
const ReasonScheduled = "Scheduled"
const ReasonUnschedulable = "Unschedulable"
const ReasonIncomplete = "Incomplete"
const ReasonInvalid = "Invalid"
const ReasonSchedulerError = "SchedulerError"
const ReasonStartTimeout = "StartTimeout"

// ControllerReference refers to the object that controls the pods of the Workload.
type ControllerReference struct {
	// apiGroup is the API group of the owner, such as batch. It is empty for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the kind of the owner, such as Job. Required.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name of the owner, in the same namespace. Required.
	// +optional
	Name string `json:"name,omitempty"`
}

// TopologyConstraint restricts a group to one domain of the cluster's topology.
type TopologyConstraint struct {
	// key is the key of a node label, such as topology.kubernetes.io/zone, or the qualified name of an
	// attribute of the nodes' devices, such as gpu.example.com/clique. All pods of the group are
	// placed on nodes that have the same value for it, within the domain of the parent. Nodes without
	// a value are excluded. Required.
	// +optional
	Key string `json:"key,omitempty"`

	// preferred is a field that only Muster has. When true, the scheduler places the group in one
	// domain if it has enough capacity, and otherwise in as few domains as possible. When false (the
	// default), the group waits until one domain has enough capacity.
	// +optional
	Preferred bool `json:"preferred,omitempty"`
}

// SchedulingConstraints restricts where a group may be placed.
// Its pods can have further constraints.
type SchedulingConstraints struct {
	// topology is the list of topology constraints, at most one.
	// +listType=atomic
	// +optional
	Topology []TopologyConstraint `json:"topology,omitempty"`
}

// Empty has no fields. Its presence selects it.
type Empty struct{}

// DisruptionMode defines which members of a group are disrupted together.
// Exactly one mode must be set.
type DisruptionMode struct {
	// single means that members can be disrupted independently of each other.
	// +optional
	Single *Empty `json:"single,omitempty"`

	// all means that all members are disrupted together or not at all. Every child of a composite with
	// this mode must have it too.
	// +optional
	All *Empty `json:"all,omitempty"`
}

// GangSchedulingPolicy defines the parameters of gang scheduling for pods.
type GangSchedulingPolicy struct {
	// minCount is the minimum number of pods that must be scheduled together before any of them runs.
	// It must be at least 1. It can be changed later, and all other fields of the policy are
	// immutable. Required.
	// +optional
	MinCount int32 `json:"minCount,omitempty"`
}

// SchedulingPolicy defines how the pods of a group are scheduled.
// Exactly one policy must be set.
type SchedulingPolicy struct {
	// basic means that the scheduler schedules pods one by one, within the domain of the group.
	// +optional
	Basic *Empty `json:"basic,omitempty"`

	// gang means that the scheduler schedules at least minCount pods together, or none.
	// +optional
	Gang *GangSchedulingPolicy `json:"gang,omitempty"`
}

// ResourceClaim is a reference to a ResourceClaim that the pods of a group share.
type ResourceClaim struct {
	// name is a DNS label that is unique within the list. Pods refer to the claim by this name.
	// Required.
	// +optional
	Name string `json:"name,omitempty"`

	// resourceClaimName is the name of a ResourceClaim in the group's namespace. Exactly one of
	// resourceClaimName and resourceClaimTemplateName must be set.
	// +optional
	ResourceClaimName *string `json:"resourceClaimName,omitempty"`

	// resourceClaimTemplateName is the name of the ResourceClaimTemplate from which Muster creates one
	// claim for the group. The name of that claim is PODGROUP.NAME, from the names of the group and of
	// this entry, and pods name that claim.
	// +optional
	ResourceClaimTemplateName *string `json:"resourceClaimTemplateName,omitempty"`
}

// PodGroupTemplate is the template of a PodGroup.
type PodGroupTemplate struct {
	// schedulingConstraints restricts where the group may be placed. Immutable.
	// +optional
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`

	// disruptionMode defines which members are disrupted together. The default is single. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the name of the group's PriorityClass. The default is the cluster's default
	// class. All groups of a tree and all their pods must have the same priority. Immutable.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// priority is the value of the PriorityClass. Admission sets it on creation. It is at most
	// 1000000000 unless the class is a system class. If a user sets it, it must equal the computed
	// value. Immutable.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is PreemptLowerPriority or Never. With PreemptLowerPriority, the group may
	// preempt groups of lower priority. With Never, it waits. The default is the policy of the
	// PriorityClass. If the policy of the class is Never, this field can only be Never. Immutable.
	// +optional
	PreemptionPolicy string `json:"preemptionPolicy,omitempty"`

	// name is a DNS label that is unique among all templates of the Workload. Required.
	// +optional
	Name string `json:"name,omitempty"`

	// schedulingPolicy defines how the group's pods are scheduled. Required.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// resourceClaims is the list of ResourceClaims that the group's pods share, at most 4. At most 256
	// pods can use a claim at the same time.
	// +listType=map
	// +listMapKey=name
	// +optional
	ResourceClaims []ResourceClaim `json:"resourceClaims,omitempty"`
}

// GangGroupSchedulingPolicy defines the parameters of gang scheduling for child groups.
type GangGroupSchedulingPolicy struct {
	// minGroupCount is the minimum number of child groups that must be scheduled together before any
	// of them runs. It must be at least 1. It can be changed later. Required.
	// +optional
	MinGroupCount int32 `json:"minGroupCount,omitempty"`
}

// CompositeSchedulingPolicy defines how the child groups of a composite are scheduled.
// Exactly one policy must be set.
type CompositeSchedulingPolicy struct {
	// basic means that the scheduler schedules child groups one by one.
	// +optional
	Basic *Empty `json:"basic,omitempty"`

	// gang means that the scheduler schedules at least minGroupCount child groups together, or none.
	// +optional
	Gang *GangGroupSchedulingPolicy `json:"gang,omitempty"`
}

// CompositePodGroupTemplate is the template of a CompositePodGroup.
// It has at least one template of its children.
type CompositePodGroupTemplate struct {
	// schedulingConstraints restricts where the group may be placed. Immutable.
	// +optional
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`

	// disruptionMode defines which members are disrupted together. The default is single. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the name of the group's PriorityClass. The default is the cluster's default
	// class. All groups of a tree and all their pods must have the same priority. Immutable.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// priority is the value of the PriorityClass. Admission sets it on creation. It is at most
	// 1000000000 unless the class is a system class. If a user sets it, it must equal the computed
	// value. Immutable.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is PreemptLowerPriority or Never. With PreemptLowerPriority, the group may
	// preempt groups of lower priority. With Never, it waits. The default is the policy of the
	// PriorityClass. If the policy of the class is Never, this field can only be Never. Immutable.
	// +optional
	PreemptionPolicy string `json:"preemptionPolicy,omitempty"`

	// name is a DNS label that is unique among all templates of the Workload. Required.
	// +optional
	Name string `json:"name,omitempty"`

	// schedulingPolicy defines how the child groups are scheduled. Required.
	// +optional
	SchedulingPolicy *CompositeSchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// podGroupTemplates is the list of templates of child PodGroups, at most 8. Immutable.
	// +listType=map
	// +listMapKey=name
	// +optional
	PodGroupTemplates []PodGroupTemplate `json:"podGroupTemplates,omitempty"`

	// compositePodGroupTemplates is the list of templates of child CompositePodGroups, at most 8. The
	// tree has at most 4 levels. Immutable.
	// +listType=map
	// +listMapKey=name
	// +optional
	CompositePodGroupTemplates []CompositePodGroupTemplate `json:"compositePodGroupTemplates,omitempty"`
}

// WorkloadSpec has the templates of a workload's groups: a flat list, or one or more trees.
type WorkloadSpec struct {
	// controllerRef refers to the object that controls the workload, such as a Job or a JobSet.
	// Immutable.
	// +optional
	ControllerRef *ControllerReference `json:"controllerRef,omitempty"`

	// podGroupTemplates is the list of templates of PodGroups without a parent, at most 8. Exactly one
	// of podGroupTemplates and compositePodGroupTemplates must be set. Immutable except for minCount.
	// +listType=map
	// +listMapKey=name
	// +optional
	PodGroupTemplates []PodGroupTemplate `json:"podGroupTemplates,omitempty"`

	// compositePodGroupTemplates is the list of templates of the roots of trees, at most 8. Immutable
	// except for minCount and minGroupCount.
	// +listType=map
	// +listMapKey=name
	// +optional
	CompositePodGroupTemplates []CompositePodGroupTemplate `json:"compositePodGroupTemplates,omitempty"`
}

// Workload defines how one workload is scheduled: templates of its groups, flat or as a tree.
// Controllers create PodGroups and CompositePodGroups from it.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the templates of the Workload and a reference to its owner.
	// +optional
	Spec WorkloadSpec `json:"spec,omitzero"`
}

// WorkloadList is a list of objects of kind Workload.
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Workload `json:"items"`
}

// WorkloadReference names the template that a group was created from.
type WorkloadReference struct {
	// workloadName is the name of the Workload, in the same namespace. Required.
	// +optional
	WorkloadName string `json:"workloadName,omitempty"`

	// templateName is the name of the template within the Workload, at any level. Required.
	// +optional
	TemplateName string `json:"templateName,omitempty"`
}

// ExpectedPods describes pods of one kind that a group will have.
// Some of them need not exist yet.
type ExpectedPods struct {
	// name is a DNS label that is unique within the list. The status names the pods by it. Required.
	// +optional
	Name string `json:"name,omitempty"`

	// count is the number of such pods that the group has once all of them exist. It includes those
	// that exist, and it is at most 10000.
	// +optional
	Count int32 `json:"count,omitempty"`

	// template has the metadata.labels and the spec of such a pod, as its owner will create it. The
	// scheduler reads only the fields that restrict where the pod may run. The template has at most 16
	// KiB as JSON. Required.
	// +optional
	Template *runtime.RawExtension `json:"template,omitempty"`

	// stage defines when these pods run, 1 to 8. The owner creates the pods of a stage after those of
	// all lower stages in the same tree have ended. So the pods of different stages never run at the
	// same time, and they may use the same capacity. With 0 (the default) the pods may run at the same
	// time as the pods of any stage.
	// +optional
	Stage int32 `json:"stage,omitempty"`
}

// PodGroupSpec is the desired state of a group of pods with one scheduling policy.
type PodGroupSpec struct {
	// schedulingConstraints restricts where the group may be placed. Immutable.
	// +optional
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`

	// disruptionMode defines which members are disrupted together. The default is single. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the name of the group's PriorityClass. The default is the cluster's default
	// class. All groups of a tree and all their pods must have the same priority. Immutable.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// priority is the value of the PriorityClass. Admission sets it on creation. It is at most
	// 1000000000 unless the class is a system class. If a user sets it, it must equal the computed
	// value. Immutable.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is PreemptLowerPriority or Never. With PreemptLowerPriority, the group may
	// preempt groups of lower priority. With Never, it waits. The default is the policy of the
	// PriorityClass. If the policy of the class is Never, this field can only be Never. Immutable.
	// +optional
	PreemptionPolicy string `json:"preemptionPolicy,omitempty"`

	// workloadRef names the template that this group was created from. Required for a group with a
	// parent. Immutable.
	// +optional
	WorkloadRef *WorkloadReference `json:"workloadRef,omitempty"`

	// parentCompositePodGroupName is the name of the parent in the tree. A group without a parent is a
	// root. Immutable.
	// +optional
	ParentCompositePodGroupName *string `json:"parentCompositePodGroupName,omitempty"`

	// schedulingPolicy defines how the group's pods are scheduled. It is optional for a group with a
	// workloadRef, which gets the policy of its template once the Workload exists. Immutable except
	// for minCount.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// resourceClaims is the list of ResourceClaims that the group's pods share, at most 4. Immutable.
	// +listType=map
	// +listMapKey=name
	// +optional
	ResourceClaims []ResourceClaim `json:"resourceClaims,omitempty"`

	// expectedPods describes the pods that the group will have, at most 8 kinds, if some of them are
	// created only after others run. They count as members, and the scheduler reserves capacity for
	// those that do not exist yet. It can be changed later.
	// +listType=map
	// +listMapKey=name
	// +optional
	ExpectedPods []ExpectedPods `json:"expectedPods,omitempty"`
}

// WaitsFor names another group of the tree.
type WaitsFor struct {
	// kind is PodGroup or CompositePodGroup.
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name of the group.
	// +optional
	Name string `json:"name,omitempty"`
}

// BestDomain is the domain with the most capacity for the group.
type BestDomain struct {
	// key is the topology key.
	// +optional
	Key string `json:"key,omitempty"`

	// value is the value of the key, which identifies the domain.
	// +optional
	Value string `json:"value,omitempty"`

	// missing is the number of members that do not fit in the domain.
	// +optional
	Missing int32 `json:"missing,omitempty"`
}

// BlockerCount is the number of nodes that are excluded for one reason.
type BlockerCount struct {
	// reason is the reason why a member does not fit these nodes.
	// +optional
	Reason string `json:"reason,omitempty"`

	// nodes is the number of nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
}

// Blocker is the main reason why a group waits, with numbers.
// It is absent when the group does not wait.
type Blocker struct {
	// summary is a human readable message that states why the group waits and what to change.
	// +optional
	Summary string `json:"summary,omitempty"`

	// kind is one of capacity, constraint, quorum, priority, binding, invalid, error.
	// +optional
	Kind string `json:"kind,omitempty"`

	// waitsFor names the group of the tree that the reason is about. It is absent if that is this
	// group.
	// +optional
	WaitsFor *WaitsFor `json:"waitsFor,omitempty"`

	// needed is the number of members that must be scheduled together.
	// +optional
	Needed int32 `json:"needed,omitempty"`

	// free is the number of those members that fit.
	// +optional
	Free int32 `json:"free,omitempty"`

	// bestDomain is the domain with the most capacity, if the group has a topology constraint.
	// +optional
	BestDomain *BestDomain `json:"bestDomain,omitempty"`

	// counts has the number of excluded nodes for each reason.
	// +listType=atomic
	// +optional
	Counts []BlockerCount `json:"counts,omitempty"`

	// impossible is true if the group would not fit even if the cluster were empty.
	// +optional
	Impossible bool `json:"impossible,omitempty"`

	// since is the time at which the group began to wait for this reason.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// retryOn is the list of cluster changes after which the scheduler retries the group.
	// +listType=atomic
	// +optional
	RetryOn []string `json:"retryOn,omitempty"`
}

// ResourceClaimStatus names the ResourceClaim of an entry of spec.resourceClaims.
type ResourceClaimStatus struct {
	// name is the name of the entry of spec.resourceClaims.
	// +optional
	Name string `json:"name,omitempty"`

	// resourceClaimName is the name of the ResourceClaim that Muster created. It is absent if none was
	// needed.
	// +optional
	ResourceClaimName *string `json:"resourceClaimName,omitempty"`
}

// HeldPods describes capacity that is reserved on one node for pods that do not exist yet.
type HeldPods struct {
	// name is the name of the entry of spec.expectedPods.
	// +optional
	Name string `json:"name,omitempty"`

	// node is the name of the node.
	// +optional
	Node string `json:"node,omitempty"`

	// count is the number of pods for which the node has reserved capacity.
	// +optional
	Count int32 `json:"count,omitempty"`
}

// HeldPlaces describes the capacity that is reserved for the expected pods of a group.
type HeldPlaces struct {
	// since is the time from which the capacity is reserved.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// until is the time at which the scheduler releases the capacity that no pod uses by then.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// pods has the number of reserved pods by entry and node, at most 1000 items.
	// +listType=atomic
	// +optional
	Pods []HeldPods `json:"pods,omitempty"`
}

// PodGroupStatus is the most recently observed state of a PodGroup.
type PodGroupStatus struct {
	// conditions has the conditions PodGroupInitiallyScheduled (CompositePodGroupInitiallyScheduled),
	// DisruptionTarget and, on the root of a tree, Preempted. PodGroupInitiallyScheduled is True with
	// reason Scheduled once minCount pods (minGroupCount child groups) were scheduled, and then it
	// remains True. Before, it is False with reason Unschedulable, Incomplete, Invalid, SchedulerError
	// or StartTimeout. DisruptionTarget is True with reason PreemptionByScheduler when the group is
	// about to be disrupted, and False once the group runs again. StartTimeout is on a root with a
	// start-timeout that waits for its first start: False while the time counts, from
	// lastTransitionTime on, and True once the scheduler gave the group up. Preempted is True after a
	// preemption that disrupted a gang of the tree; its message counts the recent ones, and
	// lastTransitionTime is the time of the first of them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// blocker states why the group waits. It is absent when the group does not wait.
	// +optional
	Blocker *Blocker `json:"blocker,omitempty"`

	// members is the number of pods that name this group and have not finished.
	// +optional
	Members int32 `json:"members,omitempty"`

	// scheduledPods is the number of pods of the group that have a node.
	// +optional
	ScheduledPods int32 `json:"scheduledPods,omitempty"`

	// resourceClaimStatuses names the ResourceClaims of spec.resourceClaims.
	// +listType=map
	// +listMapKey=name
	// +optional
	ResourceClaimStatuses []ResourceClaimStatus `json:"resourceClaimStatuses,omitempty"`

	// heldPlaces describes the capacity that is reserved for spec.expectedPods. It is absent if none
	// is reserved.
	// +optional
	HeldPlaces *HeldPlaces `json:"heldPlaces,omitempty"`
}

// PodGroup is a set of pods with one policy: all or nothing (gang), or one by one (basic).
// A pod names its group by the label scheduling.muster.dev/pod-group, or by spec.schedulingGroup
// where Kubernetes has it.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the group.
	// +optional
	Spec PodGroupSpec `json:"spec,omitzero"`

	// status is the most recently observed state of the group.
	// +optional
	Status PodGroupStatus `json:"status,omitzero"`
}

// PodGroupList is a list of objects of kind PodGroup.
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}

// CompositePodGroupSpec is the desired state of a group of groups with one policy.
type CompositePodGroupSpec struct {
	// schedulingConstraints restricts where the group may be placed. Immutable.
	// +optional
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`

	// disruptionMode defines which members are disrupted together. The default is single. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the name of the group's PriorityClass. The default is the cluster's default
	// class. All groups of a tree and all their pods must have the same priority. Immutable.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// priority is the value of the PriorityClass. Admission sets it on creation. It is at most
	// 1000000000 unless the class is a system class. If a user sets it, it must equal the computed
	// value. Immutable.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is PreemptLowerPriority or Never. With PreemptLowerPriority, the group may
	// preempt groups of lower priority. With Never, it waits. The default is the policy of the
	// PriorityClass. If the policy of the class is Never, this field can only be Never. Immutable.
	// +optional
	PreemptionPolicy string `json:"preemptionPolicy,omitempty"`

	// workloadRef names the template that this group was created from. Required. Immutable.
	// +optional
	WorkloadRef *WorkloadReference `json:"workloadRef,omitempty"`

	// parentCompositePodGroupName is the name of the parent in the tree. A group without a parent is a
	// root. Immutable.
	// +optional
	ParentCompositePodGroupName *string `json:"parentCompositePodGroupName,omitempty"`

	// schedulingPolicy defines how the child groups are scheduled. Required. Immutable except for
	// minGroupCount.
	// +optional
	SchedulingPolicy *CompositeSchedulingPolicy `json:"schedulingPolicy,omitempty"`
}

// CompositePodGroupStatus is the most recently observed state of a CompositePodGroup.
type CompositePodGroupStatus struct {
	// conditions has the conditions PodGroupInitiallyScheduled (CompositePodGroupInitiallyScheduled),
	// DisruptionTarget and, on the root of a tree, Preempted. PodGroupInitiallyScheduled is True with
	// reason Scheduled once minCount pods (minGroupCount child groups) were scheduled, and then it
	// remains True. Before, it is False with reason Unschedulable, Incomplete, Invalid, SchedulerError
	// or StartTimeout. DisruptionTarget is True with reason PreemptionByScheduler when the group is
	// about to be disrupted, and False once the group runs again. StartTimeout is on a root with a
	// start-timeout that waits for its first start: False while the time counts, from
	// lastTransitionTime on, and True once the scheduler gave the group up. Preempted is True after a
	// preemption that disrupted a gang of the tree; its message counts the recent ones, and
	// lastTransitionTime is the time of the first of them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// blocker states why the group waits. It is absent when the group does not wait.
	// +optional
	Blocker *Blocker `json:"blocker,omitempty"`

	// children is the number of groups that name this group as their parent.
	// +optional
	Children int32 `json:"children,omitempty"`

	// scheduledChildren is the number of children that have reached their minCount or minGroupCount.
	// +optional
	ScheduledChildren int32 `json:"scheduledChildren,omitempty"`
}

// CompositePodGroup is a set of groups with one policy: an inner node of a tree of groups.
type CompositePodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the group.
	// +optional
	Spec CompositePodGroupSpec `json:"spec,omitzero"`

	// status is the most recently observed state of the group.
	// +optional
	Status CompositePodGroupStatus `json:"status,omitzero"`
}

// CompositePodGroupList is a list of objects of kind CompositePodGroup.
type CompositePodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CompositePodGroup `json:"items"`
}
