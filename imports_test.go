// Package txcoord_test holds the line between the packages: who may import whom
// (DESIGN.md section 7).
package txcoord_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/txcoord/txcoord/"

// rule says what a package, and those below it that have no rule of their own, may
// import beside the standard library and itself. An entry stands for a package
// and everything below it; a leading "=" makes it that package alone.
type rule struct {
	pkg      string
	own      []string // of this module
	external []string
	noStd    []string // of the standard library, refused all the same
}

var (
	impure  = []string{"context", "os", "net", "io/fs", "math/rand", "crypto/rand", "sync", "log"}
	wire    = []string{"google.golang.org/protobuf", "google.golang.org/grpc"}
	domain  = []string{"twophase", "=lock", "=tables", "=tables/objstore", "tables/checkpoint", "tables/datafile", "=tables/logstore"}
	backend = []string{
		"lock/memstore", "lock/boltstore", "lock/objectstore", "tables/objstore/remote", "tables/objstore/s3obj", "tables/objstore/gcsobj", "tables/objstore/azobj", "lock/etcdstore", "lock/dynamostore", "tables/objstore/memobj", "tables/objstore/fileobj",
	}
)

// rules, most general first: the last one that fits a package counts. A package
// without a rule fails the test, so that a new one is thought about.
var rules = []rule{
	{pkg: "proto/txcoord/v1", external: wire},
	{pkg: "twophase/recordpb", external: wire[:1]},
	{pkg: "=twophase", own: []string{"=twophase/recordpb"}, external: wire[:1], noStd: impure},
	{pkg: "=lock", own: []string{"=twophase", "internal/refusal"}, external: []string{"github.com/klauspost/compress/zstd"}},
	{pkg: "lock/memstore", own: []string{"=lock"}},
	{pkg: "lock/boltstore", own: []string{"=lock"}, external: []string{"go.etcd.io/bbolt"}},
	{
		pkg: "lock/etcdstore", own: []string{"=lock"},
		external: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3", "go.uber.org/zap", "golang.org/x/sync", wire[1]},
	},
	{
		pkg: "lock/dynamostore", own: []string{"=lock", "internal/dynamoapi", "internal/awsprofile"},
		external: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go", "golang.org/x/sync"},
	},
	{pkg: "lock/objectstore", own: []string{"=lock", "=tables/objstore"}, external: []string{"golang.org/x/sync"}},
	{
		pkg: "lock/locktest", own: []string{"=lock"},
		external: []string{"github.com/anishathalye/porcupine", "github.com/google/go-cmp"},
	},
	{pkg: "internal/awsprofile", external: []string{"github.com/aws/aws-sdk-go-v2"}},
	{pkg: "internal/dynamoapi", own: []string{"internal/awsprofile"}, external: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"}},
	{pkg: "=tables/objstore", own: []string{"internal/refusal"}},
	{pkg: "=tables/logstore", own: []string{"=tables/objstore"}},
	{
		pkg: "tables/logstore/dynamo", own: []string{"=tables/logstore", "internal/dynamoapi", "internal/awsprofile"},
		external: []string{"github.com/aws/aws-sdk-go-v2"},
	},
	// Shares no code with what it is run against.
	{pkg: "tables/logstore/sparktest", own: []string{"=tables/objstore"}, external: []string{"github.com/aws/aws-sdk-go-v2"}},
	{pkg: "tables/objstore/memobj", own: []string{"=tables/objstore"}},
	{pkg: "tables/objstore/fileobj", own: []string{"=tables/objstore"}, external: []string{"golang.org/x/sys"}},
	{pkg: "tables/objstore/remote", own: []string{"=tables/objstore"}},
	{
		pkg: "tables/objstore/s3obj", own: []string{"=tables/objstore", "=tables/objstore/remote", "internal/awsprofile"},
		external: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"},
	},
	{
		pkg: "tables/objstore/gcsobj", own: []string{"=tables/objstore", "=tables/objstore/remote"},
		external: []string{"cloud.google.com/go/storage", "google.golang.org/api"},
	},
	{
		pkg: "tables/objstore/azobj", own: []string{"=tables/objstore", "=tables/objstore/remote"},
		external: []string{"github.com/Azure/azure-sdk-for-go/sdk"},
	},
	{pkg: "tables/objstore/objtest", own: []string{"=tables/objstore"}, external: []string{"github.com/google/go-cmp"}},
	{
		pkg: "=tables", own: []string{"=twophase", "internal/ahead", "internal/nearest", "internal/number", "=tables/objstore", "tables/checkpoint", "tables/datafile"},
		external: []string{"github.com/google/uuid", "golang.org/x/sync"},
	},
	{pkg: "tables/checkpoint", own: []string{"=tables", "=tables/objstore", "tables/datafile"}, external: []string{arrow}},
	{
		pkg: "tables/datafile", own: []string{"=tables", "=tables/objstore", "internal/nearest"},
		external: []string{arrow, "github.com/klauspost/compress"}, // bounded codecs
	},
	{pkg: "internal/ahead", external: []string{"golang.org/x/sync"}},
	{pkg: "internal/allocs"},
	{pkg: "internal/nearest", noStd: impure},
	{pkg: "internal/refusal", noStd: impure},
	{pkg: "internal/number", noStd: impure},
	{
		pkg: "coordinator", own: append([]string{"=coordinator/telemetry", "=coordinator/fair", "=coordinator/manifest", "=coordinator/quota", "internal/ahead", "internal/number"}, domain...),
		external: []string{"golang.org/x/sync", "github.com/google/uuid", "github.com/klauspost/compress"},
	},
	{pkg: "coordinator/fair", noStd: impure},
	{pkg: "coordinator/manifest", own: []string{"=twophase", "=tables/objstore", "internal/ahead"}},
	{pkg: "coordinator/quota", own: []string{"internal/nearest"}, external: []string{"=golang.org/x/time/rate"}},
	// OpenTelemetry's API only: where things go is for whoever starts a server.
	{
		pkg: "coordinator/telemetry", own: []string{"=twophase", "=lock", "=tables/objstore", "=coordinator/quota"},
		external: []string{"=go.opentelemetry.io/otel/attribute", "=go.opentelemetry.io/otel/codes", "=go.opentelemetry.io/otel/metric", "=go.opentelemetry.io/otel/trace"},
	},
	{
		pkg: "coordinator/telemetry/export", own: []string{"=coordinator/telemetry"},
		external: []string{"go.opentelemetry.io", "github.com/prometheus/client_golang", "google.golang.org/genproto/googleapis/rpc/code", "=google.golang.org/grpc/codes", "=google.golang.org/grpc/metadata", "=google.golang.org/grpc/peer", "=google.golang.org/grpc/stats", "=google.golang.org/grpc/status"},
	},
	{pkg: "coordinator/access", own: []string{"=coordinator/quota", "internal/nearest"}, external: []string{"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "go.yaml.in/yaml/v3"}},
	{
		pkg: "coordinator/rpc", own: append([]string{"=coordinator", "=coordinator/access", "=coordinator/quota", "internal/number", "proto/txcoord/v1"}, domain...),
		external: append([]string{"google.golang.org/genproto/googleapis/rpc", "golang.org/x/sys"}, wire...),
	},
	{pkg: "clients/python"},
	{
		pkg: "clients/go", own: []string{"proto/txcoord/v1"},
		external: append([]string{
			"google.golang.org/genproto/googleapis/rpc", "github.com/cenkalti/backoff/v5", "github.com/google/uuid",
		}, wire...),
	},
	{
		pkg: "cmd/txcoord",
		own: slices.Concat(
			[]string{"cmd/txcoord", "coordinator", "clients/go", "proto/txcoord/v1", "tables/logstore/dynamo", "internal/nearest", "internal/number"}, domain, backend),
		external: append([]string{
			"github.com/alecthomas/kong", "github.com/google/uuid", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/term",
			"google.golang.org/genproto/googleapis/rpc",
		}, wire...),
	},
	// Shares no code with what it checks, and neither do the readers.
	{pkg: "e2e/checker"},
	{
		pkg: "e2e/linear", own: []string{"proto/txcoord/v1"},
		external: append([]string{"github.com/anishathalye/porcupine", "google.golang.org/genproto/googleapis/rpc"}, wire...),
	},
	{pkg: "e2e/otlp", external: []string{"go.opentelemetry.io/proto/otlp", "=google.golang.org/grpc"}},
	{pkg: "e2e/toolcache"},
	{pkg: "e2e/readers", own: []string{"=e2e/toolcache"}},
	{pkg: "e2e/engines", own: []string{"=e2e/readers", "=e2e/toolcache"}},
	{pkg: "e2e/servers", own: []string{"=e2e/toolcache"}, external: []string{"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"}},
	{pkg: "e2e/servers/rivals", own: []string{"=lock"}},
	{pkg: "tables/goldentest", external: []string{"github.com/klauspost/compress/zstd"}},
	{pkg: "tools/apidoc", own: []string{"proto/txcoord/v1"}, external: wire[:1]},
	{
		pkg: "bench",
		own: slices.Concat(
			[]string{"bench", "coordinator", "clients/go", "proto/txcoord/v1", "e2e/checker", "e2e/readers", "tables/logstore/sparktest"}, domain, backend),
		external: append([]string{"golang.org/x/sync", "go.opentelemetry.io/proto/otlp/collector"}, wire...),
	},
}

// arrow is 46 MB of the binary and an easy dependency to spread: two packages only.
const arrow = "github.com/apache/arrow-go/v18"

// testHelpers never reach the binary. Package testing does, through Arrow's thrift.
var testHelpers = []string{
	"lock/locktest", "tables/objstore/objtest", "tables/goldentest", "tables/logstore/sparktest", "e2e", "bench", "internal/allocs",
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for _, p := range list(t, "./...") {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours || len(p.GoFiles) == 0 {
			continue
		}
		r, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s: no rule says what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if why := r.refuses(name, imp); why != "" {
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
		}
	}
}

func TestBinaryHoldsNoTestHelpers(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/txcoord") {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if fitsAny(testHelpers, name) {
			t.Errorf("cmd/txcoord links %s", p.ImportPath)
		}
		if ours && slices.Contains(p.Imports, "testing") {
			t.Errorf("cmd/txcoord links %s, which imports testing", p.ImportPath)
		}
	}
}

// TestRulesRefuse feeds the rules what they must refuse, so that they cannot rot.
func TestRulesRefuse(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		refused  bool
	}{
		{"twophase", "context", true},
		{"twophase", "math/rand/v2", true},
		{"twophase", "time", false},
		{"twophase", module + "lock", true},
		{"twophase", module + "tables", true},
		{"lock", module + "lock/memstore", true},
		{"lock/memstore", module + "lock/boltstore", true},
		{"lock/boltstore", module + "twophase", true},
		{"lock/boltstore", "go.etcd.io/bbolt", false},
		{"lock/etcdstore", "go.etcd.io/etcd/client/v3", false},
		{"lock/etcdstore", "go.etcd.io/etcd/server/v3/embed", true},
		{"lock/dynamostore", "go.etcd.io/etcd/client/v3", true},
		{"tables/objstore", module + "tables", true},
		{"tables/objstore/fileobj", module + "tables/objstore/memobj", true},
		{"tables", arrow + "/parquet", true},
		{"tables", module + "lock", true},
		{"tables/checkpoint", arrow + "/parquet", false},
		{"coordinator", module + "proto/txcoord/v1", true},
		{"coordinator", module + "lock/boltstore", true},
		{"coordinator", arrow + "/arrow", true},
		{"coordinator", "go.opentelemetry.io/otel/trace", true},
		{"coordinator", module + "coordinator/telemetry/export", true},
		{"coordinator/telemetry", "go.opentelemetry.io/otel/sdk/metric", true},
		{"coordinator/telemetry", module + "coordinator", true},
		{"coordinator/rpc", module + "proto/txcoord/v1", false},
		{"coordinator/rpc", module + "cmd/txcoord", true},
		{"clients/go", module + "coordinator", true},
		{"clients/go", module + "twophase", true},
		{"cmd/txcoord", module + "lock/locktest", true},
		{"cmd/txcoord", arrow + "/parquet", true},
		{"e2e/checker", module + "tables", true},
	} {
		r, ok := ruleOf(c.pkg)
		if !ok {
			t.Errorf("%s: no rule", c.pkg)
		} else if got := r.refuses(c.pkg, c.imp) != ""; got != c.refused {
			t.Errorf("%s imports %s: refused is %v, want %v", c.pkg, c.imp, got, c.refused)
		}
	}
	if _, ok := ruleOf("brand/new"); ok {
		t.Error("brand/new has a rule")
	}
}

func ruleOf(pkg string) (found rule, ok bool) {
	for _, r := range rules {
		if fits(r.pkg, pkg) {
			found, ok = r, true
		}
	}
	return found, ok
}

// refuses says why pkg may not import imp, and nothing if it may.
func (r rule) refuses(pkg, imp string) string {
	if own, ours := strings.CutPrefix(imp, module); ours {
		if own == pkg || strings.HasPrefix(own, pkg+"/internal/") || fitsAny(r.own, own) {
			return ""
		}
		return "not in a row above it"
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		if fitsAny(r.noStd, imp) {
			return "it is pure"
		}
		return ""
	}
	if fitsAny(r.external, imp) {
		return ""
	}
	return "a dependency that is not among its own"
}

func fitsAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, pkg) })
}

func fits(pattern, pkg string) bool {
	if exact, ok := strings.CutPrefix(pattern, "="); ok {
		return pkg == exact
	}
	return pkg == pattern || strings.HasPrefix(pkg, pattern+"/")
}

type listed struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,GoFiles,Imports"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, &stderr)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
}
