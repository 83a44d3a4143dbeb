//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
)

// TestServeWithLogStore: tables beside Spark; and what a server says that lacks the log
// store, or has another one.
func TestServeWithLogStore(t *testing.T) {
	s := servers.StartKumo(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	entries := sparktest.Connect(s.Endpoint, s.Region, s.AccessKey, s.SecretKey, "delta_log")
	other := sparktest.Connect(s.Endpoint, s.Region, s.AccessKey, s.SecretKey, "other_log")
	for _, d := range []*sparktest.Dynamo{entries, other} {
		if err := d.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	flag := func(table, more string) string {
		return fmt.Sprintf("--log-store=dynamodb://%s?region=%s&endpoint=%s%s", table, s.Region, s.Endpoint, more)
	}
	warehouse := t.TempDir()
	serve := func(t *testing.T, more ...string) outputs {
		return txcoord(t, nil, "", append([]string{"serve", "--listen", "127.0.0.1:0", "--warehouse", warehouse}, more...)...)
	}
	t.Run("serves", func(t *testing.T) {
		served := &server{t: t, warehouse: warehouse}
		served.env = map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, flag("delta_log", ""), "--log-level", "error")}
		served.ok("tables", "create", "orders", warehouse+"/orders", "--schema", schema, "--mode", "delta-storage")
		served.ok("tables", "create", "stock", warehouse+"/stock", "--schema", schema)
		served.ok("tables", "mode", "stock", "delta-storage")
		served.with(twoAppends("first"), "commit", "-")
		if out := served.ok("tables", "describe", "orders"); !strings.Contains(out, "delta-storage") {
			t.Errorf("describe says %s", out)
		}
		for table, want := range map[string]int{"orders": 2, "stock": 1} { // version 0 of stock was put as an open table's
			all, err := entries.All(t.Context(), "file:"+warehouse+"/"+table)
			if err != nil || len(all) != want || !all[want-1].Complete {
				t.Errorf("%s has entries %+v, %v", table, all, err)
			}
		}
		served.fails(exitPrecondition, []string{"tables", "fence", "orders"}, "set the mode to open first")
		served.fails(exitUsage, []string{"tables", "create", "x", warehouse + "/a b", "--schema", schema, "--mode", "delta-storage"}, "without spaces")
	})
	wantCode(t, nil, serve(t), exitPrecondition, "is of mode delta-storage", "--log-store")
	wantCode(t, nil, serve(t, flag("other_log", "")), exitPrecondition, "delta_log", "other_log", "the same --log-store")
	wantCode(t, nil, serve(t, flag("delta_log", "&scheme=s3")), exitPrecondition, "scheme s3a", "scheme s3")
	wantCode(t, nil, serve(t, flag("nowhere", "")), exitNotFound, "there is no table nowhere")
	wantCode(t, nil, serve(t, "--log-store=dynamodb://delta_log?region=x&endpoint=http://127.0.0.1:1&timeout=1s"), exitUnavailable, "does not answer")
	wantCode(t, nil, serve(t, "--log-store=delta_log"), exitUsage, "dynamodb://TABLE")
	none := startServer(t)
	none.fails(exitUsage, []string{"tables", "create", "x", none.warehouse + "/x", "--schema", schema, "--mode", "delta-storage"}, "start the server with --log-store")
}
