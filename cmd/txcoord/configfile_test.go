package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write docs/configuration.md anew; review the difference")

// A flag counts before its variable, a variable before the file, the file before the
// default.
func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	put(t, path, "warehouse: /from/file\nlisten: 127.0.0.1:1\nlog-level: warn\nallow: [/a b, /c]\nlimit:\n  key_bytes: 100\nmaintain: yes\nstop-timeout: 5s\ncatalog: sales\n")
	env := map[string]string{"TXCOORD_CONFIG": path, "TXCOORD_LISTEN": "127.0.0.1:2"}
	o := txcoord(t, env, "", "config", "print")
	wantCode(t, nil, o, 0)
	var got []string
	for _, l := range strings.Split(o.out, "\n") {
		if strings.Contains(l, "# file") || strings.Contains(l, "# $") || strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "    # ") {
			got = append(got, l)
		}
	}
	want := []string{
		"allow: # file", "    - file:///a b", "    - file:///c", "catalog: sales # file", "limit: # file", `    key_bytes: "100"`,
		"listen: 127.0.0.1:2 # $TXCOORD_LISTEN", "log-level: warn # file", "maintain: true # file", "stop-timeout: 5s # file",
		"warehouse: /from/file # file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(o.out, "\n    # default_ttl: 1h\n") || strings.Contains(o.out, "# key_bytes") {
		t.Errorf("limits: %s", o.out)
	}
}

// Relative paths are taken from the file's folder, wherever the command runs.
func TestPathsInConfigFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "etc", "c.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, path, "warehouse: ../lake\nallow: [more, /c, s3://b/x]\nstore: bolt:s.db\nlisten: unix:sock\nready-file: r\n")
	t.Chdir(dir)
	o := txcoord(t, nil, "", "config", "print", filepath.Join("etc", "c.yaml"))
	wantCode(t, nil, o, 0)
	dir = strings.TrimPrefix(dir, "file://")
	for _, want := range []string{
		"warehouse: file://" + dir + "/lake # file", "- file://" + dir + "/etc/more\n", "- file:///c\n", "- s3://b/x\n",
		"store: bolt:" + dir + "/etc/s.db # file", "listen: unix:" + dir + "/etc/sock # file", "ready-file: " + dir + "/etc/r # file",
	} {
		if !strings.Contains(strings.ReplaceAll(o.out, "warehouse: "+dir, "warehouse: file://"+dir), want) {
			t.Errorf("want %q in\n%s", want, o.out)
		}
	}
}

// config check opens what serve would, and reports all mistakes at once.
func TestConfigCheckOpensFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := "warehouse: lake\ntls-cert: server.pem\ntls-key: server.key\naccess: access.yaml\naudit-log: audit\n"
	put(t, path, text)
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 2, "c.yaml, line 4: access: ", "access.yaml", "c.yaml, line 2: tls-cert: ", "server.pem", "no such file")
	certificates(t, dir)
	put(t, filepath.Join(dir, "access.yaml"), "roles: {}\n")
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 0)
	for _, name := range []string{"audit", "lake"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("the check made %s", name)
		}
	}
	put(t, path, text+"nope: 1\nalso: 2\nstop-timeout: [1]\n")
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 2, `line 6: there is no "nope"`, `line 7: there is no "also"`, "line 8: stop-timeout")
}

// Mistakes of all kinds are named at once: of the file's form, of values, of what does not fit
// together, of files that are not there, and of the environment; what follows from another one
// is not.
func TestConfigCheckNamesAllMistakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	env := map[string]string{"TXCOORD_TRACE_SAMPLE": "some", "TXCOORD_METRICS_TABLES": "many", "TXCOORD_TLS_CA": filepath.Join(dir, "ca")}
	for _, c := range []struct {
		text      string
		want, not []string
	}{
		{
			"warehouse: [a]\nnope: 1\nlog-level: loud\nlog-format: xml\nstop-timeout: soon\nlisten: 0.0.0.0:1\nadvertise: b\nclean-open: yes\nkeep-logs: yes\n" +
				"tls-key: k\ntls-client-ca: c\nallow: [ftp://x]\nbucket: [one, two]\nstore: s3://b/x\netcd-ca: none\nlimit: {message_bytes: -1, default_ttl: 48h, lease_ttl: 2000h}\n",
			[]string{
				"line 1: warehouse: want one value", `line 2: there is no "nope"`, `line 3: log-level must be one of debug, info, warn, error, and is "loud"`, "line 4: log-format must be",
				"line 5: stop-timeout: expected", "line 6: listen: ", "nothing would be encrypted", "everybody might do everything", "line 7: advertise: ", "line 8: clean-open: ",
				"--tls-cert: give the certificate", "line 11: tls-client-ca: ", `line 12: allow: "ftp://x"`, `line 13: bucket: "one"`, `line 13: bucket: "two"`, "line 15: etcd-ca: ",
				"line 16: limit: message_bytes", "line 16: limit: default_ttl", "line 16: limit: lease_ttl",
				"TXCOORD_TRACE_SAMPLE: --trace-sample", "TXCOORD_METRICS_TABLES: --metrics-tables", "--tls-ca",
			},
			[]string{"--warehouse", "chunk_bytes"},
		},
		{"listen: nowhere\naccess: none\nkey: 1\n", []string{"--warehouse: say where", "line 1: listen: ", "line 2: access: ", "line 3", "TXCOORD_TRACE_SAMPLE"}, nil},
		{
			"warehouse: /x\ntls-cert: nocert.pem\ntls-key: nokey.pem\ntls-client-ca: noca.pem\notlp-endpoint: collector\n",
			[]string{"line 2: tls-cert: ", "nocert.pem: no such file", "nokey.pem: no such file", "noca.pem: no such file", "http://HOST:PORT"},
			nil,
		},
		{"warehouse: /x\ntls-cert: nocert.pem\n", []string{"--tls-key: give the key", "nocert.pem: no such file"}, nil},
		{"a: b: c", []string{"mapping values", "TXCOORD_TRACE_SAMPLE"}, []string{"--warehouse", "--listen"}},
		{"warehouse: /x\nlimit: {transaction_ttl: -1s, default_ttl: 48h}\n", []string{"transaction_ttl"}, []string{"default_ttl"}},
	} {
		put(t, path, c.text)
		o := txcoord(t, env, "", "config", "check", path)
		wantCode(t, []string{c.text}, o, 2, c.want...)
		for _, what := range c.want {
			if n := strings.Count(o.stderr, what); n != 1 {
				t.Errorf("%s is said %d times of %q:\n%s", what, n, c.text, o.stderr)
			}
		}
		for _, what := range c.not {
			if strings.Contains(o.stderr, what) {
				t.Errorf("%s follows from something else in %q, and is said:\n%s", what, c.text, o.stderr)
			}
		}
	}
	put(t, path, "warehouse: /x\nmetrics-tables: many\n") // a variable counts before it
	wantCode(t, nil, txcoord(t, map[string]string{"TXCOORD_METRICS_TABLES": "5"}, "", "config", "check", path), 0)
}

// One file is for serve, for sidecar, and for the commands that take a server's: what one of them
// has not is no mistake.
func TestAFileIsForAllServers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("warehouse: %s\nlisten: 127.0.0.1:0\nhand-over: ", filepath.Join(dir, "w"))
	put(t, path, text+"2s\n")
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 0)
	wantCode(t, nil, txcoord(t, nil, "", "config", "print", path), 0)
	one := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, "--config", path)}}
	one.ok("status")
	wantCode(t, nil, txcoord(t, nil, "", "fsck", "--config", path), 6, "has it open")
	wantCode(t, nil, txcoord(t, nil, "", "serve", "--hand-over", "2s", "--warehouse", dir), 2, "--hand-over")
	put(t, path, text+"soon\n")
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 2, "line 3: hand-over: ")
	put(t, path, text+"-2s\n")
	wantCode(t, nil, txcoord(t, nil, "", "sidecar", "--config", path), 2, "line 3: hand-over: ", "0 or more")
}

func TestServeReadsItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	put(t, path, fmt.Sprintf("warehouse: %s\nlimit: {key_bytes: 3}\n", filepath.Join(dir, "w")))
	env := map[string]string{"TXCOORD_SERVER": serving(t, "--config", path)}
	wantCode(t, nil, txcoord(t, env, "", "tx", "begin", "--key", "abcd"), 2, "key_bytes", "3")
	wantCode(t, nil, txcoord(t, env, "", "tx", "begin", "--key", "abc"), 0)
}

func TestConfigFilesThatAreWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"wharehouse: x":                                      `line 1: there is no "wharehouse"`,
		"warehouse: /x\nconfig: y":                           `line 2: there is no "config"`,
		"warehouse: /x\nserver: y":                           `there is no "server"`,
		"warehouse: /x\nwarehouse: /y":                       "line 2: warehouse stands there twice",
		"- a":                                                "want a mapping",
		"warehouse: [a]":                                     "line 1: warehouse: want one value",
		"warehouse: /x\nlimit: 5":                            "limit: want a mapping",
		"warehouse: /x\nlimit: {a: {b: c}}":                  "limit: a: want one value",
		"warehouse: /x\nallow: [[a]]":                        "allow: want a list",
		"warehouse: /x\nlimit: {no_such: 1}":                 "there is no limit of that name",
		"warehouse: /x\nlimit: {key_bytes: -1}":              "key_bytes",
		"warehouse: /x\nlog-level: loud":                     "log-level",
		"warehouse: /x\nstop-timeout: soon":                  "stop-timeout",
		"warehouse: /x\nlisten: nowhere":                     "c.yaml, line 2: listen: ",
		"warehouse: /x\nlisten: 0.0.0.0:1":                   "--tls-cert",
		"listen: 127.0.0.1:1":                                "--warehouse",
		"a: b: c":                                            "yaml",
		"warehouse: /x\nlimit: {key_bytes: 1, key_bytes: 2}": "limit: key_bytes stands there twice",
		"warehouse: /x\n---\nwarehouse: /y":                  "more than one document",
	} {
		put(t, path, text)
		wantCode(t, []string{text}, txcoord(t, nil, "", "config", "check", path), 2, want)
	}
	put(t, path, "warehouse: /x\nlisten: nowhere\nadvertise: b\nstop-timeout: -1s\ntls-key: k\nallow: [ftp://x, /a, gopher://y]\n"+
		"store: no://x\nmetrics-tables: -1\nadmin-listen: c\nlimit: {no_such: 1, key_bytes: -1}\n")
	all := []string{
		"c.yaml, line 2: listen: ", "line 3: advertise: ", "line 4: stop-timeout: ", "--tls-cert", `line 6: allow: "ftp://x"`, `line 6: allow: "gopher://y"`, "line 7: store: ", "line 8: metrics-tables: ",
		"line 9: admin-listen: ", "line 10: limit: no_such: there is no limit", "line 10: limit: key_bytes: ",
	}
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 2, all...)
	wantCode(t, nil, txcoord(t, nil, "", "serve", "--config", path), 2, all...)
	for _, command := range [][]string{{"config", "check", path + ".none"}, {"serve", "--config", path + ".none"}} {
		wantCode(t, command, txcoord(t, nil, "", command...), 2, "no such file")
	}
	put(t, path, "# nothing\nwarehouse: /x\n")
	wantCode(t, nil, txcoord(t, nil, "", "config", "check", path), 0)
}

// What is given on the command line, or as a variable, is not said to stand in the file, and a
// list that takes several lines names the line of the value.
func TestWhereValuesStand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "warehouse: /x\nlisten: nowhere\nallow:\n- /a\n- ftp://x\nlimit:\n  key_bytes: 9\n  default_ttl: soon\n")
	args := []string{"serve", "--config", path, "--listen", "none"}
	wantCode(t, args, txcoord(t, nil, "", args...), 2, `--listen: "none"`, `c.yaml, line 5: allow: "ftp://x"`, `c.yaml, line 8: limit: default_ttl: "soon"`)
	args = args[:3]
	wantCode(t, args, txcoord(t, map[string]string{"TXCOORD_LISTEN": "set"}, "", args...), 2, `TXCOORD_LISTEN: --listen: "set"`)
	for _, args := range [][]string{args, {"config", "print", path}} {
		wantCode(t, args, txcoord(t, nil, "", args...), 2, `c.yaml, line 2: listen: "nowhere"`)
	}
	put(t, path, "warehouse: /x\nlisten: 127.0.0.1:0\naccess: none.yaml\n") // which is opened later
	wantCode(t, args, txcoord(t, nil, "", args...), 2, "c.yaml, line 3: access: ", "no such file")
}

// doctor names all mistakes of a configuration, too, where a server could not be started with it.
func TestDoctorNamesAllMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "warehouse: /x\nnope: 1\nlisten: nowhere\nlog-level: loud\naccess: none.yaml\n")
	for _, o := range []outputs{
		txcoord(t, nil, "", "doctor", path, "--server", "127.0.0.1:1", "-o", "json"),
		txcoord(t, map[string]string{"TXCOORD_CONFIG": path}, "", "doctor", "--server", "127.0.0.1:1", "-o", "json"),
	} {
		wantCode(t, nil, o, exitErrorsFound)
		for _, want := range []string{`line 2: there is no \"nope\"`, "line 3: listen: ", "line 4: log-level must be", "line 5: access: "} {
			if !strings.Contains(o.out, want) || strings.Contains(o.out, "c.yaml, line") {
				t.Errorf("want %s in %s", want, o.out)
			}
		}
	}
}

// Who asks for help with a configuration is told what checks it.
func TestHelpNamesConfigCheck(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"config", "print"}} {
		o := txcoord(t, nil, "", append(command, "--help")...)
		wantCode(t, command, o, 0)
		if !strings.Contains(o.out, "config check") {
			t.Errorf("%s: %s", command, o.out)
		}
	}
}

// docs/configuration.md says what the flags say.
func TestConfigurationPage(t *testing.T) {
	const page = "../../docs/configuration.md"
	var grammar commands
	s := &session{out: io.Discard, err: io.Discard, env: nothing}
	parser, err := newParser(&grammar, s)
	if err != nil {
		t.Fatal(err)
	}
	flags := flagsOfFile(parser.Model)
	var b strings.Builder
	b.WriteString(configurationHead)
	for _, name := range sortedKeys(flags) {
		f := flags[name]
		help, _, _ := strings.Cut(f.Help, " ($")
		def := f.Default
		if def != "" {
			def = "`" + def + "`"
		}
		env := f.Tag.Get("environ")
		if env != "" {
			env = "`" + env + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, env, def, strings.TrimSuffix(help, "."))
	}
	b.WriteString(limitsHead)
	for _, l := range limits {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", l.name, l.def, l.about)
	}
	if *rewrite {
		put(t, page, b.String())
		return
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), b.String()); diff != "" {
		t.Errorf("the page is old; go test ./cmd/txcoord -run ConfigurationPage -rewrite\n%s", diff)
	}
}

const configurationHead = `# Configuration

Generated from the code. ` + "`txcoord serve`" + ` and ` + "`txcoord sidecar`" + ` take each value as a flag (` + "`--listen`" + `), from a variable, or from a YAML file (` + "`--config`" + `, or
` + "`TXCOORD_CONFIG`" + `) whose keys are the flags' names. A flag counts before its variable, a variable before the file, the file before the default. Keys that are
not known are refused, with their line. Relative paths in the file are taken from the file's folder.
` + "`txcoord fsck`" + `, ` + "`rebuild`" + ` and ` + "`store`" + ` take what they have of it from the same file. Secrets stand in files of their own, or in variables, never in this one.

` + "```yaml" + `
warehouse: /srv/lake
allow: [/srv/more]
listen: 0.0.0.0:7401
tls-cert: /etc/txcoord/tls.crt
tls-key: /etc/txcoord/tls.key
access: /etc/txcoord/access.yaml
limit:
  default_ttl: 30m
  queue_bytes: 512MiB
` + "```" + `

` + "`txcoord config check FILE`" + ` says all that is wrong, in the file and in the variables that count before it, each with what to do; of what the file names it opens the TLS, access and password files.
` + "`txcoord config print FILE`" + ` prints every value, and where it comes from; limits that are not set are comments.

| key | variable | default | meaning |
|---|---|---|---|
`

const limitsHead = `
## Limits

Under ` + "`limit`" + `, or as ` + "`--limit NAME=VALUE`" + `. Errors give these names, with the value that was refused.

| name | default | |
|---|---|---|
`
