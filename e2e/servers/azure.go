//go:build unix

package servers

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

// Azure is a server of Azure's Blob API.
type Azure struct {
	*Process
	// Endpoint is the URL of the account.
	Endpoint string
	// Account and Key are what a client says to it.
	Account, Key string
}

// azureKey is the key that azurite has for its one account unless told otherwise, and
// that everybody knows.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// StartAzure starts azurite for a test, or skips the test and says why there is none.
// With RequireVariable set to 1 it fails instead. It needs node and npm.
//
// azurite honours If-None-Match and If-Match, also of writers that race. Its
// listings are in the order of UTF-16.
func StartAzure(t testing.TB) *Azure {
	t.Helper()
	dir := t.TempDir()
	return require(t, func(ctx context.Context) (*Azure, error) {
		modules, err := toolcache.Node(ctx, "azurite", "azurite@3.37.0")
		if err != nil {
			return nil, err
		}
		for range 5 {
			var a *Azure
			if a, err = launchAzure(modules, dir); err != nil {
				return nil, err
			}
			t.Cleanup(a.Kill)
			if err = a.Ready(ctx); err == nil || !taken(err) {
				return a, err
			}
		}
		return nil, err
	})
}

func launchAzure(modules, dir string) (*Azure, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	a := &Azure{Endpoint: "http://" + address + "/" + azureAccount, Account: azureAccount, Key: azureKey}
	a.Process = &Process{
		name: "node", dir: dir,
		args: []string{
			filepath.Join(modules, "azurite", "dist", "src", "blob", "main.js"), "--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(ports[0]),
			"--skipApiVersionCheck", "--disableTelemetry", "--silent", "--inMemoryPersistence",
		},
		ready: func(ctx context.Context) error { return answersAs(ctx, a.Endpoint, "Azurite") },
	}
	return a, a.launch()
}

// taken reports whether a server did not start because another one has its port: it
// ends then, more or less silently.
func taken(err error) bool {
	return strings.Contains(err.Error(), "EADDRINUSE") || strings.Contains(err.Error(), "node ended")
}

// answersAs asks a server who it is: another one may have taken the port before it.
func answersAs(ctx context.Context, url, who string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if got := a.Header.Get("Server"); !strings.Contains(got, who) {
		return fmt.Errorf("%s answers as %q, not as %s", url, got, who)
	}
	return nil
}

// Container makes a container of a new name.
func (a *Azure) Container(t testing.TB) string {
	t.Helper()
	name := "c" + randomName()
	key, err := container.NewSharedKeyCredential(a.Account, a.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(a.Endpoint+"/"+name, key, nil)
	if err == nil {
		_, err = c.Create(t.Context(), nil)
	}
	if err != nil {
		t.Fatalf("make container: %v", err)
	}
	return name
}
