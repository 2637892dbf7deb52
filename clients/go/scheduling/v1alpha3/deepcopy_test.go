package v1alpha3

import (
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

func TestACopyIsEqualAndSharesNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	fill := randfill.New().NilChance(0).NumElements(1, 2).MaxDepth(12).Funcs(
		func(at *metav1.Time, _ randfill.Continue) { *at = metav1.Now() },
		func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"spec":{}}`) },
	)
	for kind := range scheme.KnownTypes(GroupVersion) {
		object, err := scheme.New(GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if reflect.TypeOf(object).Elem().PkgPath() != reflect.TypeOf(PodGroup{}).PkgPath() {
			continue // of apimachinery: options, Status
		}
		fill.Fill(object)
		copied := object.DeepCopyObject()
		if !reflect.DeepEqual(object, copied) {
			t.Errorf("%s: the copy differs", kind)
		}
		for _, path := range shared(reflect.ValueOf(object), reflect.ValueOf(copied), kind) {
			t.Errorf("%s is shared with the copy", path)
		}
	}
}

// shared returns the paths of pointers, slices and maps that both values have.
func shared(a, b reflect.Value, path string) []string {
	var found []string
	switch a.Kind() {
	case reflect.Pointer, reflect.Map:
		if a.IsNil() || isConstant(a.Type()) {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		if a.Kind() == reflect.Pointer {
			found = shared(a.Elem(), b.Elem(), path)
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		for i := range a.Len() {
			found = append(found, shared(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			found = append(found, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	}
	return found
}

// isConstant is true for pointers to time zones, which times share, and to structs without fields.
func isConstant(kind reflect.Type) bool {
	return kind.String() == "*time.Location" || kind.Elem().Size() == 0
}
