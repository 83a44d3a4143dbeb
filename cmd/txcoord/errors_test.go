package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func refusal(t *testing.T, c codes.Code, reason string) error {
	t.Helper()
	st, err := status.New(c, "what happened").WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: "txcoord"},
		&txcoordv1.ConflictDetail{Table: "orders", Version: 0, Rule: txcoordv1.Rule_RULE_DELETE_READ, Path: "a.parquet"},
		&txcoordv1.TableDetail{Table: "orders", Version: -1, File: "b.parquet"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

// TestExitCodesOfErrors is the table without a server, so that no timeout has a say.
func TestExitCodesOfErrors(t *testing.T) {
	for code, exit := range map[codes.Code]int{
		codes.Unavailable: 7, codes.DeadlineExceeded: 7, codes.ResourceExhausted: 10, codes.Canceled: 130, codes.Unknown: 7, codes.Aborted: 4,
	} {
		if got := exitCode(fmt.Errorf("commit: %w", client.FromStatus(status.New(code, "x")))); got != exit {
			t.Errorf("%s ends with %d, want %d", code, got, exit)
		}
	}
	if exitCode(context.Canceled) != exitInterrupted || exitCode(nil) != exitOK || exitCode(errors.New("x")) != exitOther {
		t.Error("other errors have other codes")
	}
}

// TestExitCodes walks the gRPC codes. Scripts rely on these numbers.
func TestExitCodes(t *testing.T) {
	var answer error
	env := map[string]string{"TXCOORD_SERVER": serveFake(t, fakeStatus{get: func() (*txcoordv1.GetStatusResponse, error) { return nil, answer }})}
	for _, c := range []struct {
		code   codes.Code
		reason string
		exit   int
	}{
		{codes.InvalidArgument, "INVALID_REQUEST", 2},
		{codes.NotFound, "TABLE_NOT_FOUND", 3},
		{codes.Aborted, "CONFLICT", 4},
		{codes.AlreadyExists, "KEY_COMMITTED", 5},
		{codes.FailedPrecondition, "TABLE_FROZEN", 6},
		{codes.Unavailable, "OUTCOME_UNKNOWN", 7},
		{codes.DataLoss, "LOG_CONTRADICTION", 8},
		{codes.OutOfRange, "READ_POINT_TOO_OLD", 9},
		{codes.ResourceExhausted, "QUOTA_EXCEEDED", 10},
		{codes.PermissionDenied, "PERMISSION_DENIED", 11},
		{codes.Unauthenticated, "UNAUTHENTICATED", 11},
		{codes.Internal, "BROKEN_INVARIANT", 1},
		{codes.Unimplemented, "", 1},
	} {
		answer = refusal(t, c.code, c.reason)
		if repeated := c.exit == exitUnavailable || c.exit == exitQuota; repeated {
			// The last answer before the timeout counts, or none on a busy machine.
			o := txcoord(t, env, "", "status", "--timeout", "300ms")
			if o.code != c.exit && o.code != exitUnavailable {
				wantCode(t, []string{c.code.String()}, o, c.exit)
			}
			continue
		}
		o := txcoord(t, env, "", "status")
		wantCode(t, []string{c.code.String()}, o, c.exit, "what happened", c.reason)
	}
}

func TestErrorsShowTheirDetails(t *testing.T) {
	env := map[string]string{"TXCOORD_SERVER": serveFake(t, fakeStatus{get: func() (*txcoordv1.GetStatusResponse, error) {
		return nil, refusal(t, codes.Aborted, "CONFLICT")
	}})}
	o := txcoord(t, env, "", "status")
	same(t, `txcoord: CONFLICT: what happened
  table: orders
  version: 0
  rule: delete_read
  path: a.parquet
  table: orders
  file: b.parquet
`, o.stderr)
	o = txcoord(t, env, "", "status", "-o", "json")
	var got struct {
		Error struct {
			Exit          int
			Code, Reason  string
			Conflict      struct{ Version int64 }
			Table, Frozen map[string]any
		}
	}
	if err := json.Unmarshal([]byte(o.stderr), &got); err != nil {
		t.Fatal(err, o.stderr)
	}
	if e := got.Error; e.Exit != 4 || e.Code != "Aborted" || e.Reason != "CONFLICT" || e.Table["version"] != -1.0 || e.Frozen != nil {
		t.Errorf("got %s", o.stderr)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	args := []string{"status", "--server", "127.0.0.1:1", "--timeout", "50ms"}
	wantCode(t, args, txcoord(t, nil, "", args...), 7, "127.0.0.1:1", "may be repeated")
}

func TestUsage(t *testing.T) {
	for text, c := range map[string][]string{
		"unexpected argument":           {"nope"},
		"expected one of":               {"tables"},
		"unknown flag --nope":           {"status", "--nope"},
		"--output must be one of":       {"status", "-o", "yaml"},
		`part: "name="`:                 {"tx", "commit", "--token", "t", "name="},
		"write TABLE=DIGEST":            {"tx", "commit", "--token", "t", "orders"},
		"write TABLE@VERSION":           {"tx", "commit", "--token", "t", "o=d", "--read", "items@1x"},
		"--token and --key":             {"tx", "show", "--token", "t", "--key", "k"},
		"no such file":                  {"commit", "/does/not/exist"},
		"give one of it":                {"tx", "stage", "orders", "--token", "t", "--blind", "--read-version", "1"},
		"--read-file and":               {"tx", "stage", "orders", "--token", "t", "--read-version", "1", "--read-table", "--read-file", "f"},
		"--read-snapshot at which":      {"tx", "stage", "orders", "--token", "t", "--read-table"},
		"leave the version out":         {"snapshot", "tag", "x", "3", "--delete"},
		"give a number above 0":         {"snapshot", "list", "--limit", "0"},
		"leave --key":                   {"tx", "add", "orders", "f", "--token", "t", "--verify-files"},
		"a transaction for each":        {"demo", "--writers", "5", "--transactions", "3"},
		"say where the catalog's":       {"serve", "--warehouse", ""},
		"nothing would be encrypted":    {"serve", "--warehouse", "w", "--listen", "0.0.0.0:0"},
		"write it as host:port":         {"serve", "--warehouse", "w", "--listen", "7401"},
		"write bolt:PATH":               {"serve", "--warehouse", "w", "--store", "etcd:x"},
		"--list-limits lists them":      {"serve", "--warehouse", "w", "--limit", "nope=1"},
		"such as 512":                   {"serve", "--warehouse", "w", "--limit", "key_bytes=0"},
		"such as 24h":                   {"serve", "--warehouse", "w", "--limit", "transaction_ttl=9"},
		"cannot be above":               {"serve", "--warehouse", "w", "--limit", "chunk_bytes=1GiB"},
		"a duration of 0 or more":       {"serve", "--warehouse", "w", "--stop-timeout=-1s"},
		"no object store for gs":        {"serve", "--warehouse", "gs://b/w"},
		"names another machine":         {"serve", "--warehouse", "file://host/w"},
		"it is not empty":               {"demo", "."},
		"4294967295":                    {"serve", "--warehouse", "w", "--limit", "calls=8GiB"},
		"--warehouse":                   {"serve"},
		"missing flags: --schema":       {"tables", "create", "x", "/y"},
		"give the server's address":     {"status", "--server", "\x00"},
		"expected \"<table=digest> ...": {"tx", "commit", "--token", "t"},
	} {
		o := txcoord(t, nil, "", c...)
		wantCode(t, c, o, 2, text)
		if strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("txcoord %s says %q", strings.Join(c, " "), o.stderr)
		}
	}
}

// TestTokensMayLookLikeFlags: they are not ours to choose.
func TestTokensMayLookLikeFlags(t *testing.T) {
	s := startServer(t)
	s.fails(2, []string{"tx", "abort", "--token", "--zz-y"}, "INVALID_TOKEN")
	s.fails(2, []string{"tx", "begin", "--extend", "-z"}, "INVALID_TOKEN")
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"tx", "add", "--help"}, {"serve", "--list-limits"}, {"version"}} {
		if o := txcoord(t, nil, "", args...); o.code != 0 || o.out == "" || o.stderr != "" {
			t.Errorf("txcoord %s: %+v", strings.Join(args, " "), o)
		}
	}
}
