package access_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/coordinator/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, text string) (*access.Access, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.yaml")
	write(t, path, text)
	return access.Load(path)
}

func must(t *testing.T, text string) *access.Access {
	t.Helper()
	a, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const roles = `
roles:
  etl:
  - {catalogs: [sales, "dev-?"], tables: ["orders*", "*.raw"], actions: [read, write]}
  boss:
  - {catalogs: ["*"], tables: ["*"], actions: [read, write, ddl, fence, admin]}
bindings:
- {role: etl, principals: ["token:etl", "corp-group:*-writers"]}
- {role: boss, principals: ["unix:0"]}
`

func TestRights(t *testing.T) {
	p := must(t, roles).Policy()
	etl := access.Principal{Names: []string{"token:etl"}}
	for _, c := range []struct {
		who            access.Principal
		catalog, table string
		action         access.Action
		want           bool
	}{
		{etl, "sales", "orders", access.Read, true},
		{etl, "sales", "orders_2026", access.Write, true},
		{etl, "sales", "a.raw", access.Write, true},
		{etl, "sales", "Orders", access.Read, false},
		{etl, "sales", "my.orders", access.Read, false},
		{etl, "sales", "a.raw.x", access.Read, false},
		{etl, "sales", "orders", access.DDL, false},
		{etl, "sales", "orders", access.Admin, false},
		{etl, "dev-1", "orders", access.Read, true},
		{etl, "dev-12", "orders", access.Read, false},
		{etl, "other", "orders", access.Read, false},
		{access.Principal{Names: []string{"corp:ann", "corp-group:etl-writers"}}, "sales", "orders", access.Write, true},
		{access.Principal{Names: []string{"corp:etl-writers"}}, "sales", "orders", access.Write, false},
		{access.Principal{Names: []string{"unix:0"}}, "x", "y", access.Admin, true},
		{access.Principal{Names: []string{"unix:00"}}, "x", "y", access.Admin, false},
		{access.Principal{Names: []string{access.Anonymous}}, "sales", "orders", access.Read, false},
		{access.Principal{}, "sales", "orders", access.Read, false},
	} {
		if got := p.Rights(c.who, c.catalog).On(c.table, c.action); got != c.want {
			t.Errorf("%v %s %s.%s: %t", c.who.Names, c.action, c.catalog, c.table, got)
		}
	}
	r := p.Rights(etl, "sales")
	if !r.OnAny(access.Write) || r.OnAny(access.DDL) || r.OnAll(access.Write) || !r.Any() {
		t.Error("rights on any and all tables")
	}
	var none *access.Policy
	if !none.Rights(access.Principal{}, "x").On("y", access.Admin) {
		t.Error("no policy allows everything")
	}
}

// A pattern takes no time that grows faster than the product of the lengths.
func TestPatternsAreNoWeapon(t *testing.T) {
	a := must(t, "roles:\n  r: [{catalogs: ['*'], tables: ['"+strings.Repeat("*a", 200)+"b'], actions: [read]}]\nbindings: [{role: r, principals: ['*']}]\n")
	if a.Policy().Rights(access.Principal{Names: []string{"x"}}, "c").On(strings.Repeat("a", 100_000), access.Read) {
		t.Error("matched")
	}
}

func TestWhatIsWrongWithAFile(t *testing.T) {
	for text, want := range map[string]string{
		"tokns: []": "tokns",
		"roles: {r: [{tables: ['*'], actions: [read]}]}":                                       "roles.r[0].catalogs",
		"roles: {r: [{catalogs: ['*'], actions: [read]}]}":                                     "roles.r[0].tables",
		"roles: {r: [{catalogs: ['*'], tables: ['*']}]}":                                       "roles.r[0].actions",
		"roles: {r: [{catalogs: ['*'], tables: ['*'], actions: [reed]}]}":                      `"reed" is no action`,
		"bindings: [{role: r, principals: [x]}]":                                               `there is no role "r"`,
		"roles: {r: []}\nbindings: [{role: r}]":                                                "bindings[0].principals",
		"tokens: [{sha256: aa}]":                                                               "tokens[0].principal",
		"tokens: [{principal: x, sha256: aa}]":                                                 "64 hex digits",
		"tokens: [{principal: x, secret: hello}]":                                              "secret",
		"issuers: [{name: 'a:b', issuer: 'https://x', audience: y}]":                           "issuers[0].name",
		"issuers: [{name: token, issuer: 'https://x', audience: y}]":                           "is taken",
		"issuers: [{name: a, issuer: 'http://example.test', audience: y}]":                     "https://",
		"issuers: [{name: a, issuer: 'https://x'}]":                                            "audience",
		"tokens: [{principal: x, sha256: " + hash + "}, {principal: y, sha256: " + hash + "}]": "twice",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := access.Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

var hash = strings.Repeat("ab", 32)

func TestTokens(t *testing.T) {
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	one, a := access.NewToken("etl", nil)
	two, b := access.NewToken("etl", &future)
	old, c := access.NewToken("etl", &past)
	if one == two || strings.Contains(one, a.SHA256) {
		t.Fatal("secrets")
	}
	in := must(t, fmt.Sprintf("tokens:\n- {principal: etl, sha256: %s}\n- {principal: etl, sha256: %s, not_after: %s}\n- {principal: etl, sha256: %s, not_after: %s}\n",
		a.SHA256, strings.ToUpper(b.SHA256), future.Format(time.RFC3339), c.SHA256, past.Format(time.RFC3339)))
	for _, secret := range []string{one, two} {
		for _, scheme := range []string{"Bearer ", "bearer  "} {
			who, err := in.Authenticate(t.Context(), access.Proof{Authorization: scheme + secret})
			if err != nil || who.Name() != "token:etl" {
				t.Errorf("%v, %v", who, err)
			}
		}
	}
	for _, header := range []string{"Bearer " + old, "Bearer " + one[:len(one)-1], "Bearer " + a.SHA256, one, "Basic " + one, "Bearer", "Bearer "} {
		if who, err := in.Authenticate(t.Context(), access.Proof{Authorization: header, UID: new(uint32)}); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("%q: %v, %v", header, who, err)
		} else if strings.Contains(err.Error(), one) || strings.Contains(err.Error(), old) {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
	root := uint32(0)
	who, err := in.Authenticate(t.Context(), access.Proof{UID: &root})
	if diff := cmp.Diff([]string{"unix:0"}, who.Names); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if who, err := in.Authenticate(t.Context(), access.Proof{}); err != nil || who.Name() != access.Anonymous {
		t.Errorf("nothing shown: %v, %v", who, err)
	}
}

// A token is replaced without a moment in which none is good, and a file that is
// wrong changes nothing.
func TestReload(t *testing.T) {
	one, a := access.NewToken("etl", nil)
	two, b := access.NewToken("etl", nil)
	path := filepath.Join(t.TempDir(), "access.yaml")
	entry := func(known ...access.Token) (s string) {
		s = "tokens:\n"
		for _, k := range known {
			s += "- {principal: etl, sha256: " + k.SHA256 + "}\n"
		}
		return s
	}
	write(t, path, entry(a))
	in, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	good := func(secret string) bool {
		_, err := in.Authenticate(t.Context(), access.Proof{Authorization: "Bearer " + secret})
		return err == nil
	}
	if changed, err := in.Reload(); changed || err != nil || !good(one) || good(two) {
		t.Fatalf("as it was: %t, %v", changed, err)
	}
	write(t, path, entry(a, b))
	if changed, err := in.Reload(); !changed || err != nil || !good(one) || !good(two) {
		t.Fatalf("both: %t, %v", changed, err)
	}
	write(t, path, "tokens: [")
	if changed, err := in.Reload(); changed || err == nil || !good(one) || !good(two) {
		t.Fatalf("broken: %t, %v", changed, err)
	}
	if changed, err := in.Reload(); changed || err != nil {
		t.Fatalf("broken, told already: %t, %v", changed, err)
	}
	write(t, path, entry(b))
	if changed, err := in.Reload(); !changed || err != nil || good(one) || !good(two) {
		t.Fatalf("the new one: %t, %v", changed, err)
	}
}

// A file that says nothing is one that is being written, or was cut off: it would lock
// everybody out, so it is as wrong as one that cannot be read.
func TestAFileThatSaysNothing(t *testing.T) {
	for _, text := range []string{"", "   \n \n", "\n\n", "# tokens:\n", "---\n", "{}", "tokens:\nissuers:\nroles:\nbindings:\n", "quotas: []"} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), "`roles: {}`") {
			t.Errorf("start with %q: %v", text, err)
		}
		path := filepath.Join(t.TempDir(), "access.yaml")
		secret, entry := access.NewToken("etl", nil)
		write(t, path, "tokens:\n- {principal: etl, sha256: "+entry.SHA256+"}\n")
		in, err := access.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
		if changed, err := in.Reload(); changed || err == nil {
			t.Errorf("replaced by %q: %t, %v", text, changed, err)
		}
		if who, err := show(t, in, secret); err != nil || who.Name() != "token:etl" {
			t.Errorf("after %q: %v, %v", text, who, err)
		}
	}
	if _, err := load(t, "roles: {}"); err != nil {
		t.Errorf("a file that grants nothing: %v", err)
	}
}
