// Watch lists the PodGroups of a namespace and prints each change with the decision so far.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"muster.dev/clients/go/scheduling/v1alpha3"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig; empty for the pod's service account")
	namespace := flag.String("namespace", "default", "namespace")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	client, codec, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	var groups v1alpha3.PodGroupList
	request := client.Get().Namespace(namespace).Resource("podgroups")
	if err := request.Do(ctx).Into(&groups); err != nil {
		return err
	}
	for _, group := range groups.Items {
		report("LISTED", &group)
	}
	options := metav1.ListOptions{Watch: true, ResourceVersion: groups.ResourceVersion}
	watched, err := client.Get().Namespace(namespace).Resource("podgroups").
		VersionedParams(&options, codec).Watch(ctx)
	if err != nil {
		return err
	}
	defer watched.Stop()
	for event := range watched.ResultChan() {
		if group, ok := event.Object.(*v1alpha3.PodGroup); ok {
			report(string(event.Type), group)
		}
	}
	return nil
}

func connect(kubeconfig string) (*rest.RESTClient, runtime.ParameterCodec, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha3.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha3.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return client, runtime.NewParameterCodec(scheme), err
}

func report(event string, group *v1alpha3.PodGroup) {
	minCount, decision := int32(0), "undecided"
	if policy := group.Spec.SchedulingPolicy; policy != nil && policy.Gang != nil {
		minCount = policy.Gang.MinCount
	}
	scheduled := v1alpha3.ConditionPodGroupScheduled
	if condition := meta.FindStatusCondition(group.Status.Conditions, scheduled); condition != nil {
		decision = condition.Reason
	}
	fmt.Printf("%s %s minCount=%d %s\n", event, group.Name, minCount, decision)
}
