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

	dir   string
	front *front
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
// versitygw honours If-None-Match and If-Match, also of writers that race. Its deletes
// take no part in that: one may come in between the check of a put and its landing, and
// the put succeeds for an object that is gone. S3 has an order for the writes of a key,
// and so has Endpoint, where a proxy lets deletes wait for other requests for the key.
// It never answers 409, never throttles, and cannot hold "a" beside "a/b", since objects
// are files. It does not flush to disk, so it stands for crashes of processes only.
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
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	f, err := openFront("http://" + address)
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(f.addr, ":")
	s := &S3{Endpoint: "http://" + f.addr, Region: "eu-test-1", AccessKey: "test", SecretKey: Secret, dir: dir, front: f}
	s.Process = &Process{
		name: binary,
		args: []string{
			"--port", address, "--region", s.Region, "--health", "/health", "--keep-alive", "--quiet",
			"--virtual-domain", Virtual + ":" + port, "posix", dir,
		},
		env:   []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		ready: func(ctx context.Context) error { return answersOK(ctx, s.Endpoint+"/health") },
	}
	if err := s.launch(); err != nil {
		f.close()
		return nil, err
	}
	return s, nil
}

// Start starts the server and waits until it answers. One that was killed comes back
// with the same address.
func (s *S3) Start(ctx context.Context) error {
	if err := s.front.open(); err != nil {
		return err
	}
	return s.Process.Start(ctx)
}

// Kill ends it at once, as a crash would: nobody listens at its address any more.
func (s *S3) Kill() {
	s.Process.Kill()
	s.front.close()
}

// Stop asks it to end, and returns when it is gone.
func (s *S3) Stop() {
	s.Process.Stop()
	s.front.close()
}

// S3Error is an error of the S3 API.
func S3Error(status int, code string) *Reply {
	return &Reply{Status: status, Body: fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>injected</Message></Error>`, code)}
}
