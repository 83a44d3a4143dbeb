package deploy_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// builds are the folders that are applied.
var builds = []string{"kubernetes/overlays/dynamodb", "kubernetes/overlays/etcd", "kubernetes/sidecar"}

type object struct {
	APIVersion, Kind string
	Metadata         struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Data map[string]string
	Spec json.RawMessage
}

type selector struct{ MatchLabels map[string]string }

type podTemplate struct {
	Metadata struct{ Labels map[string]string }
	Spec     pod
}

type pod struct {
	AutomountServiceAccountToken  *bool
	TerminationGracePeriodSeconds int
	SecurityContext               struct {
		RunAsNonRoot   bool
		RunAsUser      int
		SeccompProfile struct{ Type string }
	}
	InitContainers, Containers []container
	Volumes                    []volume
}

type volume struct {
	Name      string
	ConfigMap *struct{ Name string }
	Secret    *struct{ SecretName string }
	EmptyDir  *struct{ SizeLimit string }
}

type container struct {
	Name, Image, RestartPolicy string
	Args                       []string
	Env                        []variable
	EnvFrom                    []struct{ ConfigMapRef struct{ Name string } }
	Ports                      []struct {
		Name          string
		ContainerPort int
	}
	LivenessProbe, ReadinessProbe, StartupProbe *probe
	Lifecycle                                   struct {
		PreStop struct{ Sleep struct{ Seconds int } }
	}
	Resources       struct{ Limits struct{ Memory string } }
	SecurityContext struct {
		AllowPrivilegeEscalation, ReadOnlyRootFilesystem bool
		Capabilities                                     struct{ Drop []string }
	}
	VolumeMounts []struct{ Name, MountPath string }
}

type variable struct {
	Name, Value string
	ValueFrom   *struct{ FieldRef struct{ FieldPath string } }
}

type probe struct {
	HTTPGet *struct{ Path, Port, Scheme string }
	Exec    *struct{ Command []string }
}

func decode[T any](t *testing.T, raw json.RawMessage) (out T) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// cluster is what one folder builds.
type cluster []object

func build(t *testing.T, folder string) cluster {
	t.Helper()
	return checked[cluster](t, "kustomize", folder)
}

// find is the object of a kind, and of a name if there is one.
func (c cluster) find(t *testing.T, kind, name string) object {
	t.Helper()
	for _, o := range c {
		if o.Kind == kind && (name == "" || o.Metadata.Name == name) {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return object{}
}

// template is that of the pods.
func (c cluster) template(t *testing.T) podTemplate {
	t.Helper()
	for _, o := range c {
		if o.Kind == "StatefulSet" || o.Kind == "Job" {
			return decode[struct{ Template podTemplate }](t, o.Spec).Template
		}
	}
	t.Fatal("there are no pods")
	return podTemplate{}
}

// server is the container that runs txcoord as a server.
func (p pod) server(t *testing.T) container {
	t.Helper()
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if c.Name == "txcoord" {
			return c
		}
	}
	t.Fatal("there is no container txcoord")
	return container{}
}

// The schemas of the oldest and of the newest Kubernetes that README.md names, which know
// what is required and which values there are; fields that have no place in the types of
// the newest were refused before.
func TestManifestsFitTheirSchemas(t *testing.T) {
	bin := python(t)
	for _, folder := range builds {
		for _, o := range checked[[]json.RawMessage](t, "kustomize", folder) {
			one := decode[object](t, o)
			if one.Kind == "ServiceMonitor" {
				continue // not Kubernetes' own: its type was enough
			}
			file := filepath.Join(t.TempDir(), one.Kind+".yaml")
			put(t, file, string(o)) // JSON is YAML
			for _, version := range []string{"1.30", "1.37"} {
				out := ran(t, nil, filepath.Join(bin, "kubernetes-validate"), "--strict", "-k", version, file)
				if !strings.Contains(out, "passed for resource") {
					t.Errorf("%s: %s %s was not checked: %s", folder, one.Kind, one.Metadata.Name, out)
				}
			}
		}
	}
}

// What one object calls another has to be there: maps, volumes, ports, labels.
func TestManifestsNameWhatIsThere(t *testing.T) {
	for _, folder := range builds {
		c := build(t, folder)
		p := c.template(t)
		volumes := map[string]bool{}
		for _, v := range p.Spec.Volumes {
			volumes[v.Name] = true
			if v.ConfigMap != nil {
				c.find(t, "ConfigMap", v.ConfigMap.Name)
			}
			if v.Secret != nil && !strings.Contains(read(t, "README.md"), "`"+v.Secret.SecretName+"`") {
				t.Errorf("%s: README.md does not say what is in the Secret %s", folder, v.Secret.SecretName)
			}
		}
		for _, one := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, f := range one.EnvFrom {
				c.find(t, "ConfigMap", f.ConfigMapRef.Name)
			}
			for _, m := range one.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: %s mounts %s, which is no volume", folder, one.Name, m.Name)
				}
			}
		}
		for _, o := range c {
			for _, labels := range selected(t, o) {
				if !matches(labels, p.Metadata.Labels) {
					t.Errorf("%s: %s %s selects no pod: %v", folder, o.Kind, o.Metadata.Name, labels)
				}
			}
		}
	}
}

// selected are the labels by which an object finds the pods.
func selected(t *testing.T, o object) []map[string]string {
	t.Helper()
	switch o.Kind {
	case "Service":
		return []map[string]string{decode[struct{ Selector map[string]string }](t, o.Spec).Selector}
	case "PodDisruptionBudget", "StatefulSet":
		return []map[string]string{decode[struct{ Selector selector }](t, o.Spec).Selector.MatchLabels}
	case "NetworkPolicy":
		return []map[string]string{decode[struct{ PodSelector selector }](t, o.Spec).PodSelector.MatchLabels}
	default:
		return nil
	}
}

func matches(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return len(want) > 0
}

// Ports that services, policies and monitors name are the container's.
func TestPortsHaveOneName(t *testing.T) {
	for _, folder := range builds[:2] {
		c := build(t, folder)
		ports := map[string]int{}
		for _, p := range c.template(t).Spec.server(t).Ports {
			ports[p.Name] = p.ContainerPort
		}
		config := c.configuration(t)
		for name, key := range map[string]string{"grpc": "listen", "admin": "admin-listen"} {
			if want := "0.0.0.0:" + strconv.Itoa(ports[name]); !strings.Contains(config, key+": "+want+"\n") {
				t.Errorf("%s: port %s is %s, and the configuration says something else for %s", folder, name, want, key)
			}
		}
		for _, name := range []string{"txcoord", "txcoord-replicas"} {
			s := decode[struct {
				Ports []struct {
					Name, TargetPort string
					Port             int
				}
			}](t, c.find(t, "Service", name).Spec)
			for _, p := range s.Ports {
				if ports[p.TargetPort] != p.Port || p.Name != p.TargetPort {
					t.Errorf("%s: Service %s has port %s %d for %s", folder, name, p.Name, p.Port, p.TargetPort)
				}
			}
		}
		type rule struct{ Ports []struct{ Port any } }
		policy := decode[struct{ Ingress, Egress []rule }](t, c.find(t, "NetworkPolicy", "txcoord").Spec)
		for _, r := range slices.Concat(policy.Ingress, policy.Egress) {
			for _, p := range r.Ports {
				if name, ok := p.Port.(string); ok && ports[name] == 0 {
					t.Errorf("%s: the policy names port %s", folder, name)
				}
			}
		}
		advertise := c.environment(t)["TXCOORD_ADVERTISE"]
		if want := "txcoord-0.txcoord-replicas.txcoord.svc:" + strconv.Itoa(ports["grpc"]); advertise != want {
			t.Errorf("%s: it advertises %q, want %q", folder, advertise, want)
		}
	}
}

// configuration is the file that the servers read.
func (c cluster) configuration(t *testing.T) string {
	t.Helper()
	for _, o := range c {
		if text, ok := o.Data["txcoord.yaml"]; ok {
			return text
		}
	}
	t.Fatal("no map has a txcoord.yaml")
	return ""
}

// environment is that of the server's container in the first pod.
func (c cluster) environment(t *testing.T) map[string]string {
	t.Helper()
	one, env := c.template(t).Spec.server(t), map[string]string{}
	for _, f := range one.EnvFrom {
		maps.Copy(env, c.find(t, "ConfigMap", f.ConfigMapRef.Name).Data)
	}
	fields := map[string]string{"metadata.name": "txcoord-0", "metadata.namespace": "txcoord"}
	for _, v := range one.Env {
		if v.ValueFrom != nil {
			v.Value = fields[v.ValueFrom.FieldRef.FieldPath]
			if v.Value == "" {
				t.Fatalf("%s is taken from %s", v.Name, v.ValueFrom.FieldRef.FieldPath)
			}
		}
		for name, value := range env {
			v.Value = strings.ReplaceAll(v.Value, "$("+name+")", value)
		}
		env[v.Name] = v.Value
	}
	return env
}

// Everything that a container could do and does not need is off.
func TestPodsAreLockedDown(t *testing.T) {
	for _, folder := range builds {
		p := build(t, folder).template(t).Spec
		s := p.SecurityContext
		if !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" || p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
			t.Errorf("%s: the pod may do too much: %+v", folder, s)
		}
		for _, v := range p.Volumes {
			if v.EmptyDir != nil && v.EmptyDir.SizeLimit == "" {
				t.Errorf("%s: volume %s has no limit", folder, v.Name)
			}
		}
		for _, c := range slices.Concat(p.InitContainers, p.Containers) {
			s := c.SecurityContext
			if s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("%s: %s may do too much: %+v", folder, c.Name, s)
			}
			if _, tag, _ := strings.Cut(c.Image, ":"); tag == "" || tag == "latest" {
				t.Errorf("%s: %s is of image %s, which may change", folder, c.Name, c.Image)
			}
			if c.Resources.Limits.Memory == "" {
				t.Errorf("%s: %s may take all memory", folder, c.Name)
			}
		}
		c := p.server(t)
		limit := quantity(t, c.Resources.Limits.Memory)
		for _, v := range c.Env {
			if v.Name == "GOMEMLIMIT" {
				if soft := quantity(t, strings.TrimSuffix(v.Value, "B")); soft >= limit*95/100 || soft < limit/2 {
					t.Errorf("%s: GOMEMLIMIT is %d of %d", folder, soft, limit)
				}
				limit = 0
			}
		}
		if limit != 0 {
			t.Errorf("%s: there is no GOMEMLIMIT", folder)
		}
	}
}

// quantity is a number of bytes, in MiB or GiB.
func quantity(t *testing.T, text string) int {
	t.Helper()
	for suffix, unit := range map[string]int{"Mi": 1 << 20, "Gi": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			return n * unit
		}
	}
	t.Fatalf("%q is no number of MiB or GiB", text)
	return 0
}

// Kubernetes waits longer than a server takes to end in order: the pause before, calls in
// flight, publishing, and five seconds for the last metrics.
func TestGraceIsLongEnough(t *testing.T) {
	for _, folder := range builds {
		c := build(t, folder)
		p := c.template(t).Spec
		one := p.server(t)
		stop := settingOf(t, c, "stop-timeout")
		drain := stop
		if one.Args[0] == "sidecar" {
			drain = settingOf(t, c, "hand-over")
		}
		least := time.Duration(one.Lifecycle.PreStop.Sleep.Seconds)*time.Second + stop + drain + 5*time.Second
		if got := time.Duration(p.TerminationGracePeriodSeconds) * time.Second; got < least {
			t.Errorf("%s: a grace of %s, and ending takes up to %s", folder, got, least)
		}
	}
}

// settingOf is a duration that a flag sets, or else the configuration file.
func settingOf(t *testing.T, c cluster, name string) time.Duration {
	t.Helper()
	lines := c.template(t).Spec.server(t).Args
	for _, o := range c {
		lines = append(lines, strings.Split(strings.ReplaceAll(o.Data["txcoord.yaml"], ": ", "="), "\n")...)
	}
	for _, l := range lines {
		if value, ok := strings.CutPrefix(strings.TrimPrefix(l, "--"), name+"="); ok {
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("nothing sets %s", name)
	return 0
}
