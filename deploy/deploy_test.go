// Package deploy_test checks what is in this folder with the programs that will read it,
// or their libraries, and its flags, variables, ports and paths with txcoord itself.
// README.md says what that shows and what it does not.
package deploy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/e2e/toolcache"
)

// limit is for anything that is waited for, on a machine that is busy.
const limit = 2 * time.Minute

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

var binary struct {
	once sync.Once
	dir  string
	err  error
}

// program is txcoord, built as `make build` has it, so that this is a link and no more.
func program(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "txcoord-deploy"); binary.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", binary.dir, "../cmd/txcoord")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = errors.New(string(out))
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "txcoord")
}

// checked runs deploycheck, and decodes what it prints.
func checked[T any](t *testing.T, args ...string) (out T) {
	t.Helper()
	text := ran(t, nil, servers.Tool(t, "deploycheck", "."), args...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// python is the folder of the checkers that PyPI has.
func python(t *testing.T) string {
	t.Helper()
	packages, err := os.ReadFile("python.txt")
	if err != nil {
		t.Fatal(err)
	}
	v, err := toolcache.OpenVenv(t.Context(), "deploy", packages)
	switch {
	case err == nil:
	case errors.Is(err, toolcache.ErrUnavailable) && os.Getenv("TXCOORD_REQUIRE_READERS") != "1":
		t.Skipf("skipped, the checkers cannot be installed: %v", err)
	default:
		t.Fatal(err)
	}
	return v.Bin()
}

// ran runs a program that has to succeed, and returns what it prints.
func ran(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	out, err := tried(t, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return out
}

func tried(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(clean(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// clean is the environment without what would configure txcoord, or AWS's libraries.
func clean() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TXCOORD_") && !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "OTEL_") {
			env = append(env, v)
		}
	}
	return append(env, "AWS_EC2_METADATA_DISABLED=true")
}

// server is a txcoord that runs.
type server struct {
	grpc, admin string // addresses
	stop        func()
}

// serving starts txcoord and waits until it says where it serves.
func serving(t *testing.T, env []string, args ...string) server {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := exec.Command(program(t), append(args, "--ready-file="+ready)...)
	cmd.Env = append(clean(), env...)
	var out safeBuilder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := <-ended; err != nil {
				t.Errorf("it ends with %v\n%s", err, out.String())
			}
		})
	}
	t.Cleanup(stop)
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- nil // said here
			t.Fatalf("txcoord %s ends: %v\n%s", strings.Join(args, " "), err, out.String())
		default:
		}
		if address, err := os.ReadFile(ready); err == nil {
			_, admin, _ := strings.Cut(out.String(), "its health and metrics are at ")
			admin, _, _ = strings.Cut(admin, "\n")
			return server{strings.TrimSpace(string(address)), admin, stop}
		}
		if time.Now().After(end) {
			t.Fatalf("it does not serve\n%s", out.String())
		}
	}
}

// safeBuilder takes what a process prints while others read it.
type safeBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// put writes a file, and the folders above it.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// certificate makes a certificate that is its own authority, for this machine and names.
func certificate(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// variables are an environment as exec takes it.
func variables(env map[string]string) (out []string) {
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	return out
}
