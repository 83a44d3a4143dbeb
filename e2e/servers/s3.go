//go:build unix

package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// S3 is a server of the S3 API.
type S3 struct {
	*Process
	// Endpoint is its URL.
	Endpoint string
	// Region and the keys are what a client says to it.
	Region, AccessKey, SecretKey string

	dir string
}

// Bucket makes a bucket of a new name. One bucket is one folder.
func (s *S3) Bucket(t testing.TB) string {
	t.Helper()
	name := "b-" + randomName()
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// Folder is the folder that is a bucket: what is in the one is in the other.
func (s *S3) Folder(bucket string) string { return filepath.Join(s.dir, bucket) }

// Virtual is the domain below which versitygw takes the names of buckets from hosts.
const Virtual = "localhost"

// StartVersity starts versitygw over a folder for a test, or skips the test and says
// why there is none. With RequireVariable set to 1 it fails instead.
//
// versitygw honours If-None-Match and If-Match, also of writers that race. It never
// answers 409, never throttles, and cannot hold "a" beside "a/b", since objects are
// files. It does not flush to disk, so it stands for crashes of processes only.
func StartVersity(t testing.TB) *S3 {
	t.Helper()
	dir := t.TempDir()
	return require(t, func(ctx context.Context) (*S3, error) {
		binary, err := tool(ctx, "versitygw", "github.com/versity/versitygw/cmd/versitygw")
		if err != nil {
			return nil, err
		}
		for range 5 {
			var s *S3
			if s, err = launchVersity(binary, dir); err != nil {
				return nil, err
			}
			t.Cleanup(s.Kill)
			if err = s.Ready(ctx); err == nil || !strings.Contains(err.Error(), "address already in use") {
				return s, err
			}
		}
		return nil, err
	})
}

func launchVersity(binary, dir string) (*S3, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), Region: "eu-test-1", AccessKey: "test", SecretKey: "testsecret", dir: dir,
	}
	s.Process = &Process{
		name: binary,
		args: []string{
			"--port", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--region", s.Region, "--health", "/health", "--keep-alive", "--quiet",
			"--virtual-domain", fmt.Sprintf("%s:%d", Virtual, ports[0]), "posix", dir,
		},
		env: []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		ready: func(ctx context.Context) error {
			return answersOK(ctx, s.Endpoint+"/health")
		},
	}
	return s, s.launch()
}

// S3Error is an error of the S3 API.
func S3Error(status int, code string) *Reply {
	return &Reply{status, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>injected</Message></Error>`, code)}
}
