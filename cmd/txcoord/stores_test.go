//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
)

// TestStoresThatMakeNoSense: what is wrong is named, with the remedy, before anybody
// is asked; what could be a secret is not repeated.
func TestStoresThatMakeNoSense(t *testing.T) {
	for store, remedy := range map[string]string{
		"redis://h":                              "write one of bolt:PATH, etcd://",
		"bolt:":                                  "write bolt:PATH",
		"mem:x":                                  "write mem alone",
		"etcd:h":                                 "write etcd://HOST:PORT",
		"etcd://":                                "name the members of the cluster",
		"etcd://a:1,,b:2":                        "name the members of the cluster",
		"etcd://a:1/p?nope=1":                    `there is no option "nope"; there are tls, timeout`,
		"etcd://a:1/p?timeout=3":                 "is not a duration like 3s",
		"etcd://me:s3cret@a:1/p":                 "TXCOORD_ETCD_PASSWORD",
		"dynamodb:t":                             "write dynamodb://TABLE",
		"dynamodb://":                            "write dynamodb://TABLE",
		"dynamodb://t/p":                         "as option: prefix=NAME",
		"dynamodb://AKIA:s3cret@t?region=r":      "AWS's own variables",
		"dynamodb://t?region=r&access_key=s3cre": "there is no option",
	} {
		for _, args := range [][]string{{"serve", "--warehouse", "w", "--store", store}, {"store", "check", "--store", store}} {
			o := txcoord(t, nil, "", args...)
			wantCode(t, args, o, 2, remedy)
			if strings.Contains(o.stderr, "s3cret") {
				t.Errorf("%q repeats a secret: %s", args, o.stderr)
			}
		}
	}
	wantCode(t, nil, txcoord(t, nil, "", "store", "check"), 2, "say which one", "dynamodb://")
	wantCode(t, nil, txcoord(t, nil, "", "store", "check", "--store", "etcd://127.0.0.1:1", "--etcd-ca", "/nowhere"), 2, "/nowhere")
	wantCode(t, nil, txcoord(t, nil, "", "store", "check", "--store", "etcd://127.0.0.1:1?timeout=300ms"), 7, "no member of", "is the address right")
	if o := txcoord(t, nil, "", "store", "check", "--store", "mem"); o.code != 0 || !strings.Contains(o.out, "honoured") {
		t.Errorf("store check ends with %d: %s%s", o.code, o.out, o.stderr)
	}
}

// TestServeFromEtcd: two servers at once on one catalog, and its store is refused to
// every other.
func TestServeFromEtcd(t *testing.T) {
	t.Parallel()
	cluster := servers.StartEtcd(t, servers.EtcdConfig{Members: 3})
	var hosts []string
	for _, e := range cluster.Endpoints() {
		hosts = append(hosts, strings.TrimPrefix(e, "http://"))
	}
	servesFrom(t, "etcd://"+strings.Join(hosts, ",")+"/shop")
}

// TestServeFromDynamoDB is the same on a table that has to be made first.
func TestServeFromDynamoDB(t *testing.T) {
	s := servers.StartKumo(t)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_REGION": s.Region,
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		t.Setenv(name, value)
	}
	store := "dynamodb://journal?endpoint=" + s.Endpoint
	missing := []string{"serve", "--warehouse", t.TempDir(), "--listen", "127.0.0.1:0", "--store", store}
	wantCode(t, missing, txcoord(t, nil, "", missing...), 3, "there is no table journal", "txcoord store init")
	for _, says := range []string{"made DynamoDB table journal", "was left as it is"} {
		if o := txcoord(t, nil, "", "store", "init", "--store", store); o.code != 0 || !strings.Contains(o.out, says) {
			t.Errorf("store init ends with %d: %s%s", o.code, o.out, o.stderr)
		}
	}
	servesFrom(t, store)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	wantCode(t, nil, txcoord(t, nil, "", "store", "check", "--store", store), 11, "AWS_ACCESS_KEY_ID")
}

func servesFrom(t *testing.T, store string) {
	t.Helper()
	one := startServer(t, "--store", store)
	two := map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", one.warehouse, "--store", store)}
	place := filepath.Join(one.warehouse, "orders")
	wantCode(t, nil, txcoord(t, one.env, "", "tables", "create", "orders", place, "--schema", schema), 0)
	seen := strings.TrimSpace(txcoord(t, one.env, "", "snapshot", "get", "-o", "id").out)
	if o := txcoord(t, two, "", "--at-least", seen, "tables", "list"); o.code != 0 || !strings.Contains(o.out, "orders") {
		t.Errorf("the other server lists %s%s", o.out, o.stderr)
	}
	for _, args := range [][]string{{"--warehouse", t.TempDir()}, {"--warehouse", one.warehouse, "--catalog", "other"}} {
		args = append([]string{"serve", "--listen", "127.0.0.1:0", "--store", store}, args...)
		if strings.HasPrefix(store, "dynamodb:") && len(args) > 7 {
			continue // without a prefix each catalog has its own
		}
		wantCode(t, args, txcoord(t, nil, "", args...), 6, `holds the journal of catalog "default"`, "--warehouse-moved")
	}
	check := txcoord(t, nil, "", "store", "check", "--store", store, "-o", "json")
	var found storeReport
	if err := json.Unmarshal([]byte(check.out), &found); err != nil || found.Catalog == "" || !found.Conditions {
		t.Errorf("store check: %v, %s%s", err, check.out, check.stderr)
	}
}
