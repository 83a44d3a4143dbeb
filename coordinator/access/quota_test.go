package access_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

const quotas = roles + `
quotas:
- {principals: ["token:etl"], catalogs: [sales], limits: {principal_commits: 5}}
- {roles: [etl], limits: {principal_commits: 50, principal_staged_bytes: 10GiB, principal_calls: 0}}
- {principals: ["*"], limits: {principal_streams: 3}}
`

func TestQuota(t *testing.T) {
	p := must(t, quotas).Policy()
	server := quota.Limits{OpenTransactions: 1, StagedBytes: 2, Commits: 3, Calls: 4, Streams: 5}
	etl, writer, boss := access.Principal{Names: []string{"token:etl"}}, access.Principal{Names: []string{"corp:ann", "corp-group:a-writers"}}, access.Principal{Names: []string{"unix:0"}}
	for name, c := range map[string]struct {
		p       *access.Policy
		who     access.Principal
		catalog string
		want    quota.Limits
	}{
		"the first entry counts":      {p, etl, "sales", quota.Limits{OpenTransactions: 1, StagedBytes: 10 << 30, Commits: 5, Streams: 3}},
		"in its catalog":              {p, etl, "dev-1", quota.Limits{OpenTransactions: 1, StagedBytes: 10 << 30, Commits: 50, Streams: 3}},
		"a role's, by a group":        {p, writer, "sales", quota.Limits{OpenTransactions: 1, StagedBytes: 10 << 30, Commits: 50, Streams: 3}},
		"others have the server's":    {p, boss, "sales", quota.Limits{OpenTransactions: 1, StagedBytes: 2, Commits: 3, Calls: 4, Streams: 3}},
		"without a file the server's": {nil, etl, "sales", server},
	} {
		if got := c.p.Quota(c.who, c.catalog, server); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestOwnQuota: what the file says, and not what the server has.
func TestOwnQuota(t *testing.T) {
	p := must(t, quotas).Policy()
	etl, boss := access.Principal{Names: []string{"token:etl"}}, access.Principal{Names: []string{"unix:0"}}
	for name, c := range map[string]struct {
		p    *access.Policy
		who  access.Principal
		want map[string]int64
	}{
		"named":       {p, etl, map[string]int64{"principal_commits": 5, "principal_staged_bytes": 10 << 30, "principal_calls": 0, "principal_streams": 3}},
		"everybody's": {p, boss, map[string]int64{"principal_streams": 3}},
		"no file":     {nil, etl, map[string]int64{}},
	} {
		if diff := cmp.Diff(c.want, c.p.OwnQuota(c.who, "sales")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestQuotasThatAreRefused(t *testing.T) {
	for entry, want := range map[string]string{
		`{limits: {principal_calls: 1}}`:                             "quotas[0].principals: is missing",
		`{roles: [nobody], limits: {principal_calls: 1}}`:            `quotas[0].roles: there is no role "nobody"`,
		`{principals: [a]}`:                                          "quotas[0].limits: is missing",
		`{principals: [a], limits: {calls: 1}}`:                      "quotas[0].limits.calls: is no limit of a principal",
		`{principals: [a], limits: {principal_calls: many}}`:         `quotas[0].limits.principal_calls: "many" is no whole number`,
		`{principals: [a], limit: {principal_calls: 1}}`:             `there is no "limit"; there are principals, roles, catalogs, limits; did you mean "limits"?`,
		`{principals: [a], limits: {principal_staged_bytes: -1GiB}}`: "quotas[0].limits.principal_staged_bytes",
	} {
		_, err := load(t, roles+"quotas:\n- "+entry+"\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

// TestQuotasAreReloaded like the rest of the file.
func TestQuotasAreReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	write(t, path, quotas)
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(quotas, "principal_commits: 5}", "principal_commits: 5000}", 1))
	if changed, err := a.Reload(); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := a.Policy().Quota(access.Principal{Names: []string{"token:etl"}}, "sales", quota.Limits{}); got.Commits != 5000 {
		t.Errorf("%+v", got)
	}
}
