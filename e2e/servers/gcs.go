//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// GCS is a server of the API of Google Cloud Storage.
type GCS struct {
	*Process
	// Endpoint is the URL of its API. It asks nobody for credentials.
	Endpoint string
}

// StartGCS starts fake-gcs-server for a test, with everything in memory, or skips the
// test and says why there is none. With RequireVariable set to 1 it fails instead.
//
// It honours conditions on generations, also of writers that race. It never throttles.
func StartGCS(t testing.TB) *GCS {
	t.Helper()
	dir := t.TempDir()
	return require(t, func(ctx context.Context) (*GCS, error) {
		binary, err := tool(ctx, "gcs", "github.com/fsouza/fake-gcs-server")
		if err != nil {
			return nil, err
		}
		for range 5 {
			var g *GCS
			if g, err = launchGCS(binary, dir); err != nil {
				return nil, err
			}
			t.Cleanup(g.Kill)
			if err = g.Ready(ctx); err == nil || !strings.Contains(err.Error(), "address already in use") {
				return g, err
			}
		}
		return nil, err
	})
}

func launchGCS(binary, dir string) (*GCS, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	root := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	g := &GCS{Endpoint: root + "/storage/v1/"}
	g.Process = &Process{
		name: binary, dir: dir,
		args: []string{
			"-scheme", "http", "-host", "127.0.0.1", "-port", fmt.Sprint(ports[0]), "-backend", "memory",
			"-public-host", fmt.Sprintf("127.0.0.1:%d", ports[0]), "-external-url", root, "-log-level", "error",
		},
		ready: func(ctx context.Context) error { return answersOK(ctx, root+"/_internal/healthcheck") },
	}
	return g, g.launch()
}

// Bucket makes a bucket of a new name.
func (g *GCS) Bucket(t testing.TB) string {
	t.Helper()
	name := "b-" + randomName()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.Endpoint+"b?project=test", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := oneShot.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("make bucket %s: %s", name, resp.Status)
	}
	return name
}

// GCSError is an error of the JSON API.
func GCSError(status int, message string) *Reply {
	return &Reply{Status: status, Body: fmt.Sprintf(`{"error":{"code":%d,"message":%q,"errors":[{"message":%q}]}}`, status, message, message)}
}
