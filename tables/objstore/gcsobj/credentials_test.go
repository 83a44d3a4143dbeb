//go:build unix

package gcsobj_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables/objstore/gcsobj"
)

// Who says what credentials to use, or none, has nobody else asked for some: neither
// the file of the environment is read, nor, after that, a metadata service looked for.
func TestNoOtherCredentialsAreLookedFor(t *testing.T) {
	dir := t.TempDir()
	others := filepath.Join(dir, "others")
	if err := syscall.Mkfifo(others, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", others)
	for name, cfg := range map[string]gcsobj.Config{
		"anonymous": {Anonymous: true},
		"a file":    {CredentialsFile: keyFile(t, dir)},
	} {
		cfg.Bucket, cfg.Endpoint = "bucket", "http://127.0.0.1:1/storage/v1/"
		opened := make(chan error, 1)
		go func() {
			s, err := gcsobj.New(t.Context(), cfg)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		if err := unread(t, others, opened); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unread waits for an answer. Who reads the pipe meanwhile is stuck until it is opened
// for writing, which succeeds only then, and fails the test.
func unread(t *testing.T, pipe string, answer chan error) error {
	t.Helper()
	for {
		select {
		case err := <-answer:
			return err
		case <-time.After(time.Millisecond):
		}
		if f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = f.Close()
			t.Error("the credentials of the environment were read")
		}
	}
}

// keyFile is the file of a service account's key.
func keyFile(t *testing.T, dir string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@example.com", "private_key_id": "1", "token_uri": "http://127.0.0.1:1/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "key.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
