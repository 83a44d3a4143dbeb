package main

import (
	"strings"
	"testing"
	"time"
)

func TestLogStoreFlag(t *testing.T) {
	got, err := parseLogStore("dynamodb://delta_log?region=eu-central-1&scheme=s3&ttl=48h&timeout=2s&endpoint=http://127.0.0.1:1&profile=p")
	if err != nil {
		t.Fatal(err)
	}
	e := got.entries
	if e.Table != "delta_log" || e.Region != "eu-central-1" || e.Endpoint != "http://127.0.0.1:1" || e.Profile != "p" || e.RequestTimeout != 2*time.Second || got.scheme != "s3" || got.ttl != 48*time.Hour {
		t.Errorf("%+v", got)
	}
	for flag, says := range map[string]string{
		"delta_log":                        "write dynamodb://",
		"dynamodb://":                      "write dynamodb://",
		"etcd://x":                         "write dynamodb://",
		"dynamodb://a:b@t":                 "write dynamodb://",
		"dynamodb://t?zone=1":              `no option "zone"`,
		"dynamodb://t?scheme=gs":           "s3a, s3, s3n",
		"dynamodb://t?ttl=soon":            "a duration",
		"dynamodb://t?ttl=10m":             "at least 1h0m0s",
		"dynamodb://t?timeout=-1s":         "a duration",
		"dynamodb://t?region=a;b&scheme=1": "name=value",
	} {
		_, err := parseLogStore(flag)
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--log-store") {
			t.Errorf("%s: %v, want %q", flag, err, says)
		}
		if strings.Contains(flag, "a:b") && strings.Contains(err.Error(), "a:b") {
			t.Errorf("%v shows what may be a password", err)
		}
	}
}
