package main

import (
	"path/filepath"
	"testing"
)

// TestDidYouMean: whoever writes a word that is not known is told which one was meant,
// whatever reads it; and nothing where no word is near.
func TestDidYouMean(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "file")
		put(t, path, text)
		return path
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"command":         {[]string{"statsu"}, "unknown command statsu: see txcoord --help; did you mean \"status\"?"},
		"subcommand":      {[]string{"tables", "crete"}, "unknown command crete: see txcoord tables --help; did you mean \"create\"?"},
		"flag":            {[]string{"tables", "list", "--frozn"}, "unknown flag --frozn: see txcoord tables list --help; did you mean \"--frozen\"?"},
		"value":           {[]string{"snapshot", "get", "--format", "pyhton"}, "--format must be one of spark, duckdb, python, trino, and is \"pyhton\": see txcoord snapshot get --help; did you mean \"python\"?"},
		"argument":        {[]string{"tables", "mode", "orders", "opn"}, "<mode> must be one of open, exclusive, delta-storage, and is \"opn\": see txcoord tables mode --help; did you mean \"open\"?"},
		"type":            {[]string{"tables", "create", "t", dir, "--column", "id BIGNT"}, "type \"bignt\" is not known; did you mean \"bigint\"?"},
		"type of SQL":     {[]string{"tables", "create", "t", dir, "--column", "id VARCHAR(20)"}, "there is no varchar in Delta: use STRING"},
		"no such flag":    {[]string{"tables", "list", "--verbose"}, "unknown flag --verbose: see txcoord tables list --help"},
		"key of a file":   {[]string{"config", "check", file("warehouse: w\nlog-levl: info\n")}, `there is no "log-levl"; docs/configuration.md lists what there is; did you mean "log-level"?`},
		"limit":           {[]string{"serve", "--warehouse", dir, "--limit", "defalt_ttl=3m"}, `"defalt_ttl": there is no limit of that name; --list-limits lists them; did you mean "default_ttl"?`},
		"option, store":   {[]string{"serve", "--warehouse", dir, "--store", "dynamodb://t?regoin=x"}, `there is no option "regoin"; there are region, endpoint, prefix, profile, timeout; did you mean "region"?`},
		"option, etcd":    {[]string{"serve", "--warehouse", dir, "--store", "etcd://h?timeuot=1s"}, `did you mean "timeout"?`},
		"option, bucket":  {[]string{"serve", "--warehouse", dir, "--bucket", "s3://b?adressing=path"}, `did you mean "addressing"?`},
		"option, entries": {[]string{"serve", "--warehouse", dir, "--log-store", "dynamodb://t?shceme=s3a"}, `did you mean "scheme"?`},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: there is one file
			wantCode(t, c.args, txcoord(t, nil, "", c.args...), 2, c.says)
		})
	}
	for text, says := range map[string]string{
		"tokenz: []\nroles: {}\n": `line 1: there is no "tokenz"; there are tokens, issuers, roles, bindings, quotas; did you mean "tokens"?`,
		"roles:\n  r:\n  - {catalogs: [a], tabels: [b], actions: [read]}\n":                                                                      `line 3: there is no "tabels"; there are catalogs, tables, actions; did you mean "tables"?`,
		"roles:\n  r: [{catalogs: [a], tables: [b], actions: [raed]}]\n":                                                                         `"raed" is no action; use some of [read write ddl fence admin]; did you mean "read"?`,
		"roles:\n  reader: [{catalogs: [a], tables: [b], actions: [read]}]\nbindings: [{role: raeder, principals: [x]}]\n":                       `there is no role "raeder"; define it under roles; did you mean "reader"?`,
		"roles:\n  reader: [{catalogs: [a], tables: [b], actions: [read]}]\nquotas: [{roles: [redaer], limits: {principal_calls: 1}}]\n":         `there is no role "redaer"; define it under roles; did you mean "reader"?`,
		"roles:\n  reader: [{catalogs: [a], tables: [b], actions: [read]}]\nquotas: [{roles: [reader], limits: {principal_cals: 1}}]\n":          `did you mean "principal_calls"?`,
		"roles:\n  reader: [{catalogs: [a], tables: [b], actions: [read]}]\nbindings: [{role: reader, principals: [x], catalogue: [default]}]\n": `line 3: there is no "catalogue"; there are role, principals`,
	} {
		wantCode(t, []string{text}, txcoord(t, nil, "", "access", "check", file(text)), 2, says)
	}
}
