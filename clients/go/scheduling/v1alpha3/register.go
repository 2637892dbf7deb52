// Package v1alpha3 has the kinds of scheduling.muster.dev that Muster stores (KEP-6012).
//
// +groupName=scheduling.muster.dev
package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme adds the kinds and their lists to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Workload{}, &WorkloadList{},
		&PodGroup{}, &PodGroupList{},
		&CompositePodGroup{}, &CompositePodGroupList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
