// Code generated from api/models by make generate. DO NOT EDIT.

package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies all fields into out.
func (in *ControllerReference) DeepCopyInto(out *ControllerReference) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *ControllerReference) DeepCopy() *ControllerReference {
	if in == nil {
		return nil
	}
	out := new(ControllerReference)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *TopologyConstraint) DeepCopyInto(out *TopologyConstraint) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *TopologyConstraint) DeepCopy() *TopologyConstraint {
	if in == nil {
		return nil
	}
	out := new(TopologyConstraint)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *SchedulingConstraints) DeepCopyInto(out *SchedulingConstraints) {
	*out = *in
	if in.Topology != nil {
		out.Topology = make([]TopologyConstraint, len(in.Topology))
		for i := range in.Topology {
			in.Topology[i].DeepCopyInto(&out.Topology[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *SchedulingConstraints) DeepCopy() *SchedulingConstraints {
	if in == nil {
		return nil
	}
	out := new(SchedulingConstraints)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *Empty) DeepCopyInto(out *Empty) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *Empty) DeepCopy() *Empty {
	if in == nil {
		return nil
	}
	out := new(Empty)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *DisruptionMode) DeepCopyInto(out *DisruptionMode) {
	*out = *in
	if in.Single != nil {
		out.Single = in.Single.DeepCopy()
	}
	if in.All != nil {
		out.All = in.All.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *DisruptionMode) DeepCopy() *DisruptionMode {
	if in == nil {
		return nil
	}
	out := new(DisruptionMode)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *GangSchedulingPolicy) DeepCopyInto(out *GangSchedulingPolicy) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *GangSchedulingPolicy) DeepCopy() *GangSchedulingPolicy {
	if in == nil {
		return nil
	}
	out := new(GangSchedulingPolicy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *SchedulingPolicy) DeepCopyInto(out *SchedulingPolicy) {
	*out = *in
	if in.Basic != nil {
		out.Basic = in.Basic.DeepCopy()
	}
	if in.Gang != nil {
		out.Gang = in.Gang.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *SchedulingPolicy) DeepCopy() *SchedulingPolicy {
	if in == nil {
		return nil
	}
	out := new(SchedulingPolicy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *ResourceClaim) DeepCopyInto(out *ResourceClaim) {
	*out = *in
	if in.ResourceClaimName != nil {
		out.ResourceClaimName = new(string)
		*out.ResourceClaimName = *in.ResourceClaimName
	}
	if in.ResourceClaimTemplateName != nil {
		out.ResourceClaimTemplateName = new(string)
		*out.ResourceClaimTemplateName = *in.ResourceClaimTemplateName
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *ResourceClaim) DeepCopy() *ResourceClaim {
	if in == nil {
		return nil
	}
	out := new(ResourceClaim)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *PodGroupTemplate) DeepCopyInto(out *PodGroupTemplate) {
	*out = *in
	if in.SchedulingConstraints != nil {
		out.SchedulingConstraints = in.SchedulingConstraints.DeepCopy()
	}
	if in.DisruptionMode != nil {
		out.DisruptionMode = in.DisruptionMode.DeepCopy()
	}
	if in.Priority != nil {
		out.Priority = new(int32)
		*out.Priority = *in.Priority
	}
	if in.SchedulingPolicy != nil {
		out.SchedulingPolicy = in.SchedulingPolicy.DeepCopy()
	}
	if in.ResourceClaims != nil {
		out.ResourceClaims = make([]ResourceClaim, len(in.ResourceClaims))
		for i := range in.ResourceClaims {
			in.ResourceClaims[i].DeepCopyInto(&out.ResourceClaims[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *PodGroupTemplate) DeepCopy() *PodGroupTemplate {
	if in == nil {
		return nil
	}
	out := new(PodGroupTemplate)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *GangGroupSchedulingPolicy) DeepCopyInto(out *GangGroupSchedulingPolicy) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *GangGroupSchedulingPolicy) DeepCopy() *GangGroupSchedulingPolicy {
	if in == nil {
		return nil
	}
	out := new(GangGroupSchedulingPolicy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *CompositeSchedulingPolicy) DeepCopyInto(out *CompositeSchedulingPolicy) {
	*out = *in
	if in.Basic != nil {
		out.Basic = in.Basic.DeepCopy()
	}
	if in.Gang != nil {
		out.Gang = in.Gang.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositeSchedulingPolicy) DeepCopy() *CompositeSchedulingPolicy {
	if in == nil {
		return nil
	}
	out := new(CompositeSchedulingPolicy)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *CompositePodGroupTemplate) DeepCopyInto(out *CompositePodGroupTemplate) {
	*out = *in
	if in.SchedulingConstraints != nil {
		out.SchedulingConstraints = in.SchedulingConstraints.DeepCopy()
	}
	if in.DisruptionMode != nil {
		out.DisruptionMode = in.DisruptionMode.DeepCopy()
	}
	if in.Priority != nil {
		out.Priority = new(int32)
		*out.Priority = *in.Priority
	}
	if in.SchedulingPolicy != nil {
		out.SchedulingPolicy = in.SchedulingPolicy.DeepCopy()
	}
	if in.PodGroupTemplates != nil {
		out.PodGroupTemplates = make([]PodGroupTemplate, len(in.PodGroupTemplates))
		for i := range in.PodGroupTemplates {
			in.PodGroupTemplates[i].DeepCopyInto(&out.PodGroupTemplates[i])
		}
	}
	if in.CompositePodGroupTemplates != nil {
		out.CompositePodGroupTemplates = make([]CompositePodGroupTemplate, len(in.CompositePodGroupTemplates))
		for i := range in.CompositePodGroupTemplates {
			in.CompositePodGroupTemplates[i].DeepCopyInto(&out.CompositePodGroupTemplates[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositePodGroupTemplate) DeepCopy() *CompositePodGroupTemplate {
	if in == nil {
		return nil
	}
	out := new(CompositePodGroupTemplate)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *WorkloadSpec) DeepCopyInto(out *WorkloadSpec) {
	*out = *in
	if in.ControllerRef != nil {
		out.ControllerRef = in.ControllerRef.DeepCopy()
	}
	if in.PodGroupTemplates != nil {
		out.PodGroupTemplates = make([]PodGroupTemplate, len(in.PodGroupTemplates))
		for i := range in.PodGroupTemplates {
			in.PodGroupTemplates[i].DeepCopyInto(&out.PodGroupTemplates[i])
		}
	}
	if in.CompositePodGroupTemplates != nil {
		out.CompositePodGroupTemplates = make([]CompositePodGroupTemplate, len(in.CompositePodGroupTemplates))
		for i := range in.CompositePodGroupTemplates {
			in.CompositePodGroupTemplates[i].DeepCopyInto(&out.CompositePodGroupTemplates[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *WorkloadSpec) DeepCopy() *WorkloadSpec {
	if in == nil {
		return nil
	}
	out := new(WorkloadSpec)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *Workload) DeepCopyInto(out *Workload) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *Workload) DeepCopy() *Workload {
	if in == nil {
		return nil
	}
	out := new(Workload)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *Workload) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}

// DeepCopyInto copies all fields into out.
func (in *WorkloadList) DeepCopyInto(out *WorkloadList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Workload, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *WorkloadList) DeepCopy() *WorkloadList {
	if in == nil {
		return nil
	}
	out := new(WorkloadList)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *WorkloadList) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}

// DeepCopyInto copies all fields into out.
func (in *WorkloadReference) DeepCopyInto(out *WorkloadReference) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *WorkloadReference) DeepCopy() *WorkloadReference {
	if in == nil {
		return nil
	}
	out := new(WorkloadReference)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *ExpectedPods) DeepCopyInto(out *ExpectedPods) {
	*out = *in
	if in.Template != nil {
		out.Template = in.Template.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *ExpectedPods) DeepCopy() *ExpectedPods {
	if in == nil {
		return nil
	}
	out := new(ExpectedPods)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *PodGroupSpec) DeepCopyInto(out *PodGroupSpec) {
	*out = *in
	if in.SchedulingConstraints != nil {
		out.SchedulingConstraints = in.SchedulingConstraints.DeepCopy()
	}
	if in.DisruptionMode != nil {
		out.DisruptionMode = in.DisruptionMode.DeepCopy()
	}
	if in.Priority != nil {
		out.Priority = new(int32)
		*out.Priority = *in.Priority
	}
	if in.WorkloadRef != nil {
		out.WorkloadRef = in.WorkloadRef.DeepCopy()
	}
	if in.ParentCompositePodGroupName != nil {
		out.ParentCompositePodGroupName = new(string)
		*out.ParentCompositePodGroupName = *in.ParentCompositePodGroupName
	}
	if in.SchedulingPolicy != nil {
		out.SchedulingPolicy = in.SchedulingPolicy.DeepCopy()
	}
	if in.ResourceClaims != nil {
		out.ResourceClaims = make([]ResourceClaim, len(in.ResourceClaims))
		for i := range in.ResourceClaims {
			in.ResourceClaims[i].DeepCopyInto(&out.ResourceClaims[i])
		}
	}
	if in.ExpectedPods != nil {
		out.ExpectedPods = make([]ExpectedPods, len(in.ExpectedPods))
		for i := range in.ExpectedPods {
			in.ExpectedPods[i].DeepCopyInto(&out.ExpectedPods[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *PodGroupSpec) DeepCopy() *PodGroupSpec {
	if in == nil {
		return nil
	}
	out := new(PodGroupSpec)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *WaitsFor) DeepCopyInto(out *WaitsFor) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *WaitsFor) DeepCopy() *WaitsFor {
	if in == nil {
		return nil
	}
	out := new(WaitsFor)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *BestDomain) DeepCopyInto(out *BestDomain) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *BestDomain) DeepCopy() *BestDomain {
	if in == nil {
		return nil
	}
	out := new(BestDomain)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *BlockerCount) DeepCopyInto(out *BlockerCount) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *BlockerCount) DeepCopy() *BlockerCount {
	if in == nil {
		return nil
	}
	out := new(BlockerCount)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *Blocker) DeepCopyInto(out *Blocker) {
	*out = *in
	if in.WaitsFor != nil {
		out.WaitsFor = in.WaitsFor.DeepCopy()
	}
	if in.BestDomain != nil {
		out.BestDomain = in.BestDomain.DeepCopy()
	}
	if in.Counts != nil {
		out.Counts = make([]BlockerCount, len(in.Counts))
		for i := range in.Counts {
			in.Counts[i].DeepCopyInto(&out.Counts[i])
		}
	}
	if in.Since != nil {
		out.Since = in.Since.DeepCopy()
	}
	if in.RetryOn != nil {
		out.RetryOn = make([]string, len(in.RetryOn))
		copy(out.RetryOn, in.RetryOn)
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *Blocker) DeepCopy() *Blocker {
	if in == nil {
		return nil
	}
	out := new(Blocker)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *ResourceClaimStatus) DeepCopyInto(out *ResourceClaimStatus) {
	*out = *in
	if in.ResourceClaimName != nil {
		out.ResourceClaimName = new(string)
		*out.ResourceClaimName = *in.ResourceClaimName
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *ResourceClaimStatus) DeepCopy() *ResourceClaimStatus {
	if in == nil {
		return nil
	}
	out := new(ResourceClaimStatus)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *HeldPods) DeepCopyInto(out *HeldPods) {
	*out = *in
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *HeldPods) DeepCopy() *HeldPods {
	if in == nil {
		return nil
	}
	out := new(HeldPods)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *HeldPlaces) DeepCopyInto(out *HeldPlaces) {
	*out = *in
	if in.Since != nil {
		out.Since = in.Since.DeepCopy()
	}
	if in.Until != nil {
		out.Until = in.Until.DeepCopy()
	}
	if in.Pods != nil {
		out.Pods = make([]HeldPods, len(in.Pods))
		for i := range in.Pods {
			in.Pods[i].DeepCopyInto(&out.Pods[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *HeldPlaces) DeepCopy() *HeldPlaces {
	if in == nil {
		return nil
	}
	out := new(HeldPlaces)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *PodGroupStatus) DeepCopyInto(out *PodGroupStatus) {
	*out = *in
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
	if in.Blocker != nil {
		out.Blocker = in.Blocker.DeepCopy()
	}
	if in.ResourceClaimStatuses != nil {
		out.ResourceClaimStatuses = make([]ResourceClaimStatus, len(in.ResourceClaimStatuses))
		for i := range in.ResourceClaimStatuses {
			in.ResourceClaimStatuses[i].DeepCopyInto(&out.ResourceClaimStatuses[i])
		}
	}
	if in.HeldPlaces != nil {
		out.HeldPlaces = in.HeldPlaces.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *PodGroupStatus) DeepCopy() *PodGroupStatus {
	if in == nil {
		return nil
	}
	out := new(PodGroupStatus)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *PodGroup) DeepCopyInto(out *PodGroup) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *PodGroup) DeepCopy() *PodGroup {
	if in == nil {
		return nil
	}
	out := new(PodGroup)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *PodGroup) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}

// DeepCopyInto copies all fields into out.
func (in *PodGroupList) DeepCopyInto(out *PodGroupList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]PodGroup, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *PodGroupList) DeepCopy() *PodGroupList {
	if in == nil {
		return nil
	}
	out := new(PodGroupList)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *PodGroupList) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}

// DeepCopyInto copies all fields into out.
func (in *CompositePodGroupSpec) DeepCopyInto(out *CompositePodGroupSpec) {
	*out = *in
	if in.SchedulingConstraints != nil {
		out.SchedulingConstraints = in.SchedulingConstraints.DeepCopy()
	}
	if in.DisruptionMode != nil {
		out.DisruptionMode = in.DisruptionMode.DeepCopy()
	}
	if in.Priority != nil {
		out.Priority = new(int32)
		*out.Priority = *in.Priority
	}
	if in.WorkloadRef != nil {
		out.WorkloadRef = in.WorkloadRef.DeepCopy()
	}
	if in.ParentCompositePodGroupName != nil {
		out.ParentCompositePodGroupName = new(string)
		*out.ParentCompositePodGroupName = *in.ParentCompositePodGroupName
	}
	if in.SchedulingPolicy != nil {
		out.SchedulingPolicy = in.SchedulingPolicy.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositePodGroupSpec) DeepCopy() *CompositePodGroupSpec {
	if in == nil {
		return nil
	}
	out := new(CompositePodGroupSpec)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *CompositePodGroupStatus) DeepCopyInto(out *CompositePodGroupStatus) {
	*out = *in
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
	if in.Blocker != nil {
		out.Blocker = in.Blocker.DeepCopy()
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositePodGroupStatus) DeepCopy() *CompositePodGroupStatus {
	if in == nil {
		return nil
	}
	out := new(CompositePodGroupStatus)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all fields into out.
func (in *CompositePodGroup) DeepCopyInto(out *CompositePodGroup) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Spec.DeepCopyInto(&out.Spec)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositePodGroup) DeepCopy() *CompositePodGroup {
	if in == nil {
		return nil
	}
	out := new(CompositePodGroup)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *CompositePodGroup) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}

// DeepCopyInto copies all fields into out.
func (in *CompositePodGroupList) DeepCopyInto(out *CompositePodGroupList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]CompositePodGroup, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopy returns a copy that shares nothing with the original.
func (in *CompositePodGroupList) DeepCopy() *CompositePodGroupList {
	if in == nil {
		return nil
	}
	out := new(CompositePodGroupList)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy as an object of any kind.
func (in *CompositePodGroupList) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}
