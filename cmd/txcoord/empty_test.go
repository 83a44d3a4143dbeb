package main

import (
	"path/filepath"
	"testing"
)

// A script whose variable is empty must not go on as if no token, key or password had been
// meant: nothing of these reaches a server.
func TestWhatIsGivenEmpty(t *testing.T) {
	folder := t.TempDir()
	empty, config := filepath.Join(folder, "empty"), filepath.Join(folder, "c.yaml")
	put(t, empty, "\n")
	put(t, config, "warehouse: w\naccess: \"\"\n")
	etcd := []string{"store", "check", "--store", "etcd://127.0.0.1:1"}
	for _, c := range []struct {
		env  map[string]string
		args []string
		says string
	}{
		{nil, []string{"tx", "add", "orders", "f", "--token", ""}, "--token: it is given, and empty"},
		{nil, []string{"tx", "add", "orders", "f", "--key", ""}, "--key: it is given, and empty"},
		{nil, []string{"tx", "begin", "--key="}, "--key: it is given, and empty"},
		{nil, []string{"tx", "begin", "--extend", ""}, "--extend: it is given, and empty"},
		{nil, []string{"tx", "commit", "--token", "", "orders=d"}, "--token: it is given, and empty"},
		{nil, []string{"tables", "alter", "orders", "--set", "a=b", "--key", ""}, "--key: it is given, and empty"},
		{map[string]string{"TXCOORD_TOKEN": ""}, []string{"status"}, "$TXCOORD_TOKEN: it is empty"},
		{map[string]string{"TXCOORD_TOKEN_FILE": ""}, []string{"status"}, "$TXCOORD_TOKEN_FILE: it is given, and empty"},
		{nil, []string{"status", "--token-file", ""}, "--token-file: it is given, and empty"},
		{nil, []string{"status", "--token-file", empty}, empty + `": it is empty`},
		{nil, []string{"serve", "--warehouse", "w", "--access", ""}, "--access: it is given, and empty"},
		{map[string]string{"TXCOORD_ACCESS": ""}, []string{"serve", "--warehouse", "w"}, "$TXCOORD_ACCESS: it is given, and empty"},
		{nil, []string{"serve", "--config", config}, "access: it is given, and empty"},
		{map[string]string{"TXCOORD_TLS_KEY": ""}, []string{"config", "check", config}, "$TXCOORD_TLS_KEY: it is given, and empty"},
		{nil, []string{"config", "check", config}, "access: it is given, and empty"},
		{map[string]string{"TXCOORD_ETCD_PASSWORD": ""}, etcd, "$TXCOORD_ETCD_PASSWORD: it is empty"},
		{nil, append(etcd, "--etcd-password-file", empty), empty + `": it is empty`},
		{nil, append(etcd, "--etcd-user", ""), "--etcd-user: it is given, and empty"},
		{nil, []string{"serve", "--warehouse", "w", "--bucket", "gs://b?credentials="}, "option credentials is empty"},
		{nil, []string{"store", "check", "--store", "dynamodb://t?profile="}, "option profile is empty"},
	} {
		wantCode(t, c.args, txcoord(t, c.env, "", c.args...), exitUsage, c.says)
	}
}
