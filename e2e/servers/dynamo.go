//go:build unix

package servers

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

//go:embed moto.txt
var motoPackages []byte

// Dynamo is a server of the DynamoDB API. Its tables are in memory and end with it.
type Dynamo struct {
	*Process
	// Endpoint is its URL.
	Endpoint string
	// Region and the keys are what a client says to it.
	Region, AccessKey, SecretKey string
}

// Secret is the key of every server here that wants one. It is found nowhere by chance, so
// tests can look whether their processes repeat it.
const Secret = "planted-secret-key-of-the-server"

func newDynamo(p *Process, endpoint string) *Dynamo {
	return &Dynamo{Process: p, Endpoint: endpoint, Region: "us-east-1", AccessKey: "test", SecretKey: Secret}
}

// StartKumo starts kumo for a test, or skips the test and says why there is none.
// With RequireVariable set to 1 it fails instead.
//
// kumo judges conditions and writes under one lock. It does not return the old item
// with a failed condition, knows no limit on the size of items and no
// TransactionConflictException, and it never throttles.
func StartKumo(t testing.TB) *Dynamo {
	t.Helper()
	return require(t, func(ctx context.Context) (*Dynamo, error) {
		binary, err := tool(ctx, "kumo", ".")
		if err != nil {
			return nil, err
		}
		// It ends with its standard input.
		p := &Process{name: binary}
		p.ready = func(context.Context) error {
			if !strings.HasPrefix(p.Output(), "http://") {
				return errors.New("no address yet")
			}
			return nil
		}
		if err := p.Start(ctx); err != nil {
			return nil, err
		}
		t.Cleanup(p.Kill)
		return newDynamo(p, strings.TrimSpace(p.Output())), nil
	})
}

// StartMoto starts moto for a test, or skips the test and says why there is none.
// With RequireVariable set to 1 it fails instead.
//
// moto returns the old item with a failed condition and refuses items over 400 KB.
// It is slow.
func StartMoto(t testing.TB) *Dynamo {
	t.Helper()
	return require(t, func(ctx context.Context) (*Dynamo, error) {
		v, err := toolcache.OpenVenv(ctx, "moto", motoPackages)
		if err != nil {
			return nil, err
		}
		for range 5 {
			var d *Dynamo
			if d, err = launchMoto(v.Bin(), t.TempDir()); err != nil {
				return nil, err
			}
			t.Cleanup(d.Kill)
			if err = d.Ready(ctx); err == nil || !strings.Contains(err.Error(), "in use") {
				return d, err
			}
		}
		return nil, err
	})
}

func launchMoto(bin, dir string) (*Dynamo, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	p := &Process{
		name: bin + "/moto_server",
		args: []string{"-H", "127.0.0.1", "-p", fmt.Sprint(ports[0])},
		dir:  dir,
		ready: func(ctx context.Context) error {
			return answersOK(ctx, endpoint+"/moto-api/")
		},
	}
	return newDynamo(p, endpoint), p.launch()
}

func randomName() string { return strings.ToLower(rand.Text()) }
