package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// An unknown option of a URL is named, and no value of an option is shown: who misspells
// one, or expects a password to go there, has it in no log.
func TestUnknownOptionsAreNamedWithoutValues(t *testing.T) {
	t.Parallel()
	w := filepath.Join(t.TempDir(), "w")
	for _, flags := range [][]string{
		{"--store", "etcd://127.0.0.1:1?passwort=hunter2"},
		{"--store", "dynamodb://t?region=hunter2&passwort=hunter2"},
		{"--store", "etcd://127.0.0.1:1?passwort=a@hunter2"},
		{"--bucket", "s3://b?passwort=hunter2"},
		{"--bucket", "s3://b?region=hunter2&passwort=hunter2"},
		{"--log-store", "dynamodb://t?passwort=hunter2"},
		{"--bucket", "s5://b?passwort=hunter2"},
		{"--store", "etcd:127.0.0.1:1?passwort=hunter2"},
		{"--store", "etcdd://127.0.0.1:1?passwort=hunter2"},
		{"--log-store", "dynamo://t?passwort=hunter2"},
	} {
		o := txcoord(t, nil, "", append([]string{"serve", "--warehouse", w}, flags...)...)
		wantCode(t, nil, o, exitUsage, flags[0])
		if unknown := strings.HasPrefix(flags[1], "etcd://") || strings.HasPrefix(flags[1], "dynamodb://") || strings.HasPrefix(flags[1], "s3://"); unknown {
			wantCode(t, nil, o, exitUsage, `no option "passwort"`)
		}
		if strings.Contains(o.out+o.stderr, "hunter2") {
			t.Errorf("%v: the value is shown: %s%s", flags, o.out, o.stderr)
		}
	}
	for flag, broken := range map[string]string{"--store": "etcd://127.0.0.1:1?passwort=hunter2;x", "--bucket": "s3://b?passwort=hunter2;x", "--log-store": "dynamodb://t?passwort=hunter2;x"} {
		o := txcoord(t, nil, "", "serve", "--warehouse", w, flag, broken)
		wantCode(t, nil, o, exitUsage, flag, "name=value")
		if strings.Contains(o.out+o.stderr, "hunter2") {
			t.Errorf("%s: the value is shown: %s%s", broken, o.out, o.stderr)
		}
	}
}
