//go:build unix

package servers_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
)

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post returns the status and body of an answer, or the error of having none.
func post(t *testing.T, url, target, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", target)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, b), err
}

func TestEtcdAnswersAndComesBack(t *testing.T) {
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	put := `{"key":"aw==","value":"dg=="}`
	if got, err := post(t, e.Members[0].Endpoint+"/v3/kv/put", "", put); err != nil || !strings.HasPrefix(got, "200 ") {
		t.Fatalf("%s, %v", got, err)
	}
	e.Members[0].Kill()
	if got, err := post(t, e.Members[0].Endpoint+"/v3/kv/range", "", put); err == nil {
		t.Fatalf("a killed server answers %s", got)
	}
	if err := e.Members[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := post(t, e.Members[0].Endpoint+"/v3/kv/range", "", `{"key":"aw=="}`); err != nil || !strings.Contains(got, "dg==") {
		t.Errorf("%s, %v", got, err)
	}
	if m, err := e.Leader(t.Context()); err != nil || m != e.Members[0] {
		t.Errorf("%v leads, %v", m, err)
	}
}

var full = flag.Bool("full", false, "start moto too, which python3 installs")

func TestDynamoServersAnswer(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *servers.Dynamo{"kumo": servers.StartKumo, "moto": servers.StartMoto} {
		t.Run(name, func(t *testing.T) {
			if name == "moto" && !*full {
				t.Skip("skipped, run it with -full")
			}
			s := start(t)
			got, err := post(t, s.Endpoint, "DynamoDB_20120810.ListTables", "{}")
			if err != nil || !strings.HasPrefix(got, "200 ") {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}
