package main

import (
	"encoding/json"
	"fmt"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kinds are the types that the server, or the operator, decodes an object into.
var kinds = map[string]func() any{
	"v1 Namespace":                            func() any { return new(corev1.Namespace) },
	"v1 ServiceAccount":                       func() any { return new(corev1.ServiceAccount) },
	"v1 ConfigMap":                            func() any { return new(corev1.ConfigMap) },
	"v1 Service":                              func() any { return new(corev1.Service) },
	"apps/v1 StatefulSet":                     func() any { return new(appsv1.StatefulSet) },
	"batch/v1 Job":                            func() any { return new(batchv1.Job) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networkingv1.NetworkPolicy) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoringv1.ServiceMonitor) },
}

// kustomize builds a folder, and decodes each object strictly: a field that its type
// does not have is an error.
func kustomize(folder string) ([]json.RawMessage, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", folder, err)
	}
	var out []json.RawMessage
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		name := r.GetApiVersion() + " " + r.GetKind()
		made, ok := kinds[name]
		if !ok {
			return nil, fmt.Errorf("%s %s: no type is known that it could be checked against", name, r.GetName())
		}
		if err := yaml.UnmarshalStrict(text, made()); err != nil {
			return nil, fmt.Errorf("%s %s: %w", name, r.GetName(), err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}
