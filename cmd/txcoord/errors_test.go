package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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
	if e := got.Error; e.Exit != 4 || e.Code != "Aborted" || e.Reason != "CONFLICT" || e.Table["version"] != nil || e.Table["file"] != "b.parquet" || e.Frozen != nil {
		t.Errorf("got %s", o.stderr)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	// At once, whatever the timeout: each of these would take the test's whole time.
	for _, args := range [][]string{{"status"}, {"snapshot", "watch", "--after", "0"}, {"tx", "begin"}} {
		args = append(args, "--server", "127.0.0.1:1", "--timeout", "10h")
		o := txcoord(t, nil, "", args...)
		wantCode(t, args, o, 7, "no server at 127.0.0.1:1 (connection refused)", `start "txcoord serve"`, "--server")
		if strings.Contains(o.stderr, "may be repeated") { // nothing was asked that something could have become of
			t.Errorf("%s: %s", args, o.stderr)
		}
	}
	for list, want := range map[string]string{
		"127.0.0.1:1,127.0.0.1:2": "no server at 127.0.0.1:1,127.0.0.1:2 (connection refused)",
		"127.0.0.1:1,nowhere":     `"nowhere" is no address of a server`,
	} {
		args := []string{"status", "--server", list, "--timeout", "10h"}
		wantCode(t, args, txcoord(t, nil, "", args...), 7, want)
	}
	awaited(t, "127.0.0.1:1", "no server at 127.0.0.1:1 (connection refused)", `start "txcoord serve"`, "TXCOORD_SERVER", "may be repeated")
	awaited(t, "nowhere.invalid:1", `no address is known for the host "nowhere.invalid"`)
}

// awaited wants to be told what stood in the way while a server was awaited, which takes
// the whole timeout: a short one first, and a longer one where a busy machine had learned
// nothing by its end.
func awaited(t *testing.T, server string, parts ...string) {
	t.Helper()
	for _, timeout := range []string{"50ms", "1s", "20s"} {
		args := []string{"status", "--server", server, "--timeout", timeout, "--await-server"}
		o := txcoord(t, nil, "", args...)
		if timeout == "20s" || !strings.Contains(o.stderr, "no answer from "+server+" within "+timeout) {
			wantCode(t, args, o, 7, parts...)
			return
		}
	}
}

func TestUsage(t *testing.T) {
	for text, c := range map[string][]string{
		`unknown command nope`:           {"nope"},
		"see txcoord tables --help":      {"tables", "nope"},
		"unexpected argument more":       {"status", "more"},
		"see txcoord status --help":      {"status", "more"},
		"like 2026-11-29T18:30:00Z":      {"snapshot", "get", "--time", "yesterday"},
		"--key, or leave it out":         {"tx", "add", "orders", "f", "--attempt", "2"},
		"snapshots count from 1":         {"snapshot", "tag", "x", "0"},
		"leave it out for the latest":    {"snapshot", "diff", "3", "0"},
		"expected one of":                {"tables"},
		"unknown flag --nope":            {"status", "--nope"},
		"have it, and this command asks": {"gc", "--warehouse", "w"},
		"belongs to tables create, tx":   {"status", "--column", "c"},
		"it belongs to serve, sidecar":   {"store", "move", "--ready-file", "c"},
		"the command is txcoord version": {"--version"},
		"such as --warehouse lake":       {"serve"},
		"--output must be one of":        {"status", "-o", "yaml"},
		`part: "name="`:                  {"tx", "commit", "--token", "t", "name="},
		"write TABLE=DIGEST":             {"tx", "commit", "--token", "t", "orders"},
		"write TABLE@VERSION":            {"tx", "commit", "--token", "t", "o=d", "--read", "items@1x"},
		"--token and --key":              {"tx", "show", "--token", "t", "--key", "k"},
		"no such file":                   {"commit", "/does/not/exist"},
		"give one of it":                 {"tx", "stage", "orders", "--token", "t", "--blind", "--read-version", "1"},
		"--read-file and":                {"tx", "stage", "orders", "--token", "t", "--read-version", "1", "--read-table", "--read-file", "f"},
		"--read-snapshot at which":       {"tx", "stage", "orders", "--token", "t", "--read-table"},
		"leave the version out":          {"snapshot", "tag", "x", "3", "--delete"},
		"give a number above 0":          {"snapshot", "list", "--limit", "0"},
		"leave --key":                    {"tx", "add", "orders", "f", "--token", "t", "--verify-files"},
		"a transaction for each":         {"demo", "--writers", "5", "--transactions", "3"},
		"say where the catalog's":        {"serve", "--warehouse", ""},
		"nothing would be encrypted":     {"serve", "--warehouse", "w", "--listen", "0.0.0.0:0"},
		"write it as host:port":          {"serve", "--warehouse", "w", "--listen", "7401"},
		"write bolt:PATH":                {"serve", "--warehouse", "w", "--store", "bolt:"},
		"--list-limits lists them":       {"serve", "--warehouse", "w", "--limit", "nope=1"},
		"such as 512":                    {"serve", "--warehouse", "w", "--limit", "key_bytes=0"},
		"such as 24h":                    {"serve", "--warehouse", "w", "--limit", "transaction_ttl=9"},
		"cannot be above":                {"serve", "--warehouse", "w", "--limit", "chunk_bytes=1GiB"},
		"a duration of 0 or more":        {"serve", "--warehouse", "w", "--stop-timeout=-1s"},
		"has no object store for ftp://": {"serve", "--warehouse", "ftp://b/w"},
		"names another machine":          {"serve", "--warehouse", "file://host/w"},
		"it is not empty":                {"demo", "."},
		"4294967295":                     {"serve", "--warehouse", "w", "--limit", "calls=8GiB"},
		"--warehouse":                    {"serve"},
		"missing flags: --schema":        {"tables", "create", "x", "/y"},
		"give the server's address":      {"status", "--server", "\x00"},
		"list what was staged, TABLE=DIGEST, or a table to --release": {"tx", "commit", "--token", "t"},
	} {
		o := txcoord(t, nil, "", c...)
		wantCode(t, c, o, 2, text)
		if strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("txcoord %s says %q", strings.Join(c, " "), o.stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"tx", "add", "--help"}, {"serve", "--list-limits"}, {"version"}} {
		if o := txcoord(t, nil, "", args...); o.code != 0 || o.out == "" || o.stderr != "" {
			t.Errorf("txcoord %s: %+v", strings.Join(args, " "), o)
		}
	}
}

// TestHelpSaysWhatACommandUses: a server has no use for the flags of a client.
func TestHelpSaysWhatACommandUses(t *testing.T) {
	for command, not := range map[string][]string{
		"serve":  {"--server", "--timeout", "--at-least", "--output"},
		"demo":   {"--server", "--catalog", "--timeout", "--at-least", "--output"},
		"status": {"--listen"},
		// They open the store themselves.
		"fsck": {"--server", "--timeout"}, "rebuild": {"--server", "--timeout"}, "store move": {"--server", "--timeout"},
	} {
		out := txcoord(t, nil, "", append(strings.Fields(command), "--help")...).out
		for _, flag := range not {
			if strings.Contains(out, flag) {
				t.Errorf("%s --help has %s:\n%s", command, flag, out)
			}
		}
	}
	for command, says := range map[string]string{
		"serve": "$TXCOORD_LISTEN, else " + defaultServer, "status": "$TXCOORD_SERVER, else " + defaultServer,
	} {
		out := strings.Join(strings.Fields(txcoord(t, nil, "", command, "--help").out), " ")
		if !strings.Contains(out, says) {
			t.Errorf("%s --help does not say %q:\n%s", command, says, out)
		}
	}
}

// TestUsageSaysTheValueOnce: errors that come up from below begin with it, too.
func TestUsageSaysTheValueOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "access.yaml")
	put(t, file, "nope: 1\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--warehouse", "ftp://a"}, `txcoord: --warehouse: "ftp://a": this build has no object store for ftp://`},
		{[]string{"--warehouse", dir, "--access", file}, fmt.Sprintf("txcoord: --access: %q: line 1: there is no \"nope\"; there are tokens, ", file)},
	} {
		o := txcoord(t, nil, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		if o.code != 2 || !strings.HasPrefix(o.stderr, c.want) {
			t.Errorf("serve %v: exit %d, %s\nwant %s", c.args, o.code, o.stderr, c.want)
		}
	}
}

// TestErrorsSayThingsOnce: what stands in the message does not stand below it again.
func TestErrorsSayThingsOnce(t *testing.T) {
	for _, c := range []struct {
		err  *client.Error
		want []string
	}{
		{&client.Error{
			Message: `token: "": it is required`, Field: &txcoordv1.FieldDetail{Field: "token", Remedy: "it is required", Line: 3},
		}, []string{"line: 3"}},
		{&client.Error{
			Message: "table location x: y", Field: &txcoordv1.FieldDetail{Field: "uri", Remedy: "use another"},
		}, []string{"field: uri", "remedy: use another"}},
		{&client.Error{
			Message:  "transaction 12 is aborted: path exists on table a: x: the file is there",
			Conflict: &txcoordv1.ConflictDetail{Table: "a", TableId: "t-1", Path: "x", Detail: "the file is there", TransactionId: "12", Version: -1},
			Table:    &txcoordv1.TableDetail{Table: "a", TableId: "t-1", Version: -1, File: strings.Repeat("ab", 32)},
		}, []string{"table: a", "table id: t-1", "path: x", "digest: " + strings.Repeat("ab", 32)}},
	} {
		same(t, c.want, detailLines(c.err))
	}
}
