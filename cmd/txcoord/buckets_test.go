//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
)

// awsEnvironment is what a process sees that has the keys of a server.
func awsEnvironment(t *testing.T, access, secret string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

func twoAppends(key string) string {
	add := `{"add":{"path":"` + key + `.parquet","size":1,"modificationTime":1,"partitionValues":{},"dataChange":true}}`
	return `{"key":"` + key + `","tables":[{"table":"orders","actions":[` + add + `]},{"table":"stock","actions":[` + add + `]}]}`
}

// TestServeOnS3: warehouse and tables in two buckets, the journal in one of them; two
// servers at once, and one that comes later.
func TestServeOnS3(t *testing.T) {
	s := servers.StartVersity(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	warehouse, other := s.Bucket(t), s.Bucket(t)
	flags := []string{
		"--warehouse", "s3://" + warehouse + "/shop", "--allow", "s3a://" + other + "/tables", "--store", "s3://" + warehouse + "/journal",
		"--bucket", "s3://*?region=" + s.Region + "&endpoint=" + s.Endpoint,
		"--bucket", "s3://" + other + "?addressing=path&requests=8&hedge=1s&timeout=5s&region=" + s.Region + "&endpoint=" + s.Endpoint,
	}
	one := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, flags...)}}
	one.ok("tables", "create", "orders", "s3://"+warehouse+"/shop/orders", "--schema", schema)
	one.ok("tables", "create", "stock", "s3a://"+other+"/tables/stock", "--schema", schema)
	one.with(twoAppends("first"), "commit", "-")
	two := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, flags...)}}
	two.with(twoAppends("second"), "commit", "-")
	if out := two.ok("snapshot", "get", "-o", "json"); strings.Count(out, `"version": 2`) != 2 {
		t.Errorf("the tables are not at version 2: %s", out)
	}
	refused := txcoord(t, one.env, "", "tables", "create", "x", "s3://"+other+"/elsewhere", "--schema", schema)
	wantCode(t, nil, refused, 2, "is not below s3://"+warehouse+"/shop or s3://"+other+"/tables")
	check := txcoord(t, nil, "", "store", "check", "--store", "s3://"+warehouse+"/journal", "--bucket", flags[7])
	if check.code != 0 || !strings.Contains(check.out, "honoured") {
		t.Errorf("store check ends with %d: %s%s", check.code, check.out, check.stderr)
	}
	// Were the journal lost, another folder would take the new one: a plan for it needs none.
	plan := append([]string{"rebuild", "--dry-run"}, flags...)
	plan[slices.Index(plan, "--store")+1] = "s3://" + warehouse + "/unmade"
	wantCode(t, plan, txcoord(t, nil, "", plan...), 0)
	wantNothing(t, filepath.Join(s.Folder(warehouse), "unmade"))
}

// TestNoTableOverTheJournal: VACUUM removes from a table's folder all that the table does not
// name, and so would take a journal that lies there.
func TestNoTableOverTheJournal(t *testing.T) {
	s := servers.StartVersity(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	bucket := s.Bucket(t)
	lake := t.TempDir()
	for name, c := range map[string]struct {
		flags  []string
		refuse []string
		takes  string
	}{
		"a folder of the warehouse": {
			[]string{"--warehouse", "s3://" + bucket, "--store", "s3://" + bucket + "/parts/journal%25"},
			[]string{"s3://" + bucket + "/parts/journal%25", "s3://" + bucket + "/parts", "s3://" + bucket + "/parts/journal%25/items"},
			"s3://" + bucket + "/parts/journal",
		},
		"the folder that is meant without one": {
			[]string{"--warehouse", "s3://" + bucket + "/w", "--allow", "s3://" + bucket + "/txcoord", "--store", "s3://" + bucket},
			[]string{"s3://" + bucket + "/txcoord", "s3://" + bucket + "/txcoord/default/orders"},
			"s3://" + bucket + "/txcoord/orders",
		},
		"a file": {
			[]string{"--warehouse", filepath.Join(lake, "w"), "--allow", filepath.Join(lake, "data"), "--store", "bolt:" + filepath.Join(lake, "data", "here", "journal.db")},
			[]string{filepath.Join(lake, "data", "here"), filepath.Join(lake, "data")},
			filepath.Join(lake, "data", "beside"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, append(c.flags, "--bucket", "s3://*?region="+s.Region+"&endpoint="+s.Endpoint)...)}}
			token := strings.TrimSpace(one.ok("tx", "begin", "-o", "id"))
			for _, at := range c.refuse {
				one.fails(2, []string{"tables", "create", "t", at, "--schema", schema}, "contains, the place of the catalog's journal", "a folder of its own")
				one.fails(2, []string{"tx", "create", "t", at, "--schema", schema, "--token", token}, "contains, the place of the catalog's journal")
			}
			one.ok("tables", "create", "t", c.takes, "--schema", schema)
		})
	}
}

// TestServeOnGCSAndAzure: one table on each, in one transaction, the journal on one of
// them and then on the other.
func TestServeOnGCSAndAzure(t *testing.T) {
	g, a := servers.StartGCS(t), servers.StartAzure(t)
	t.Setenv("AZURE_STORAGE_KEY", a.Key)
	t.Setenv("AZURE_STORAGE_ACCOUNT", a.Account)
	gcs, container := "gs://"+g.Bucket(t), a.Container(t)
	abfss := "abfss://" + container + "@" + a.Account + ".dfs.core.windows.net"
	for journal, warehouse := range map[string]string{gcs + "/journal": abfss + "/one", "az://" + container + "/journal": gcs + "/two"} {
		one := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, "--store", journal,
			"--allow", gcs, "--allow", abfss, "--bucket", "gs://*?anonymous=true&endpoint="+g.Endpoint,
			"--bucket", "az://*?endpoint="+a.Endpoint, "--bucket", abfss+"?endpoint="+a.Endpoint)}}
		folder := "/" + filepath.Base(warehouse)
		one.ok("tables", "create", "orders", gcs+folder+"/orders", "--schema", schema)
		one.ok("tables", "create", "stock", abfss+folder+"/stock", "--schema", schema)
		one.with(twoAppends("first"), "commit", "-")
		if out := one.ok("snapshot", "get", "-o", "json"); strings.Count(out, `"version": 1`) != 2 {
			t.Errorf("the tables are not at version 1: %s", out)
		}
	}
}

// TestBucketsThatCannotBeUsed: refused at the start, with the remedy.
func TestBucketsThatCannotBeUsed(t *testing.T) {
	s := servers.StartVersity(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	lies := servers.NewHTTPFaults(t, s.Endpoint)
	lies.Decide(func(r servers.Request) servers.Fate {
		if r.Operation == http.MethodPut {
			return servers.Fate{Instead: &servers.Reply{Status: 200}}
		}
		return servers.Fate{}
	})
	good := "region=" + s.Region + "&endpoint=" + s.Endpoint
	bucket := s.Bucket(t)
	for _, c := range []struct {
		bucket, options, secret string
		code                    int
		says                    []string
	}{
		{"missing", good, "", 3, []string{"there is no bucket missing", "create it"}},
		{bucket, "region=us-east-1&endpoint=" + s.Endpoint, "", 3, []string{"another region", "name its region"}},
		{bucket, good, "wrong", 11, []string{"does not accept the credentials", "AWS_SECRET_ACCESS_KEY"}},
		{bucket, "region=x&endpoint=http://127.0.0.1:1", "", 7, []string{"does not answer", "correct the endpoint"}},
		{bucket, "region=" + s.Region + "&endpoint=" + lies.URL, "", 6, []string{"does not honour conditional puts", "16 of 16 writers"}},
	} {
		secret := s.SecretKey
		if c.secret != "" {
			secret = c.secret
		}
		t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
		for _, args := range [][]string{
			{"serve", "--listen", "127.0.0.1:0", "--warehouse", "s3://" + c.bucket + "/w", "--store", "mem"},
			{"store", "check", "--store", "s3://" + c.bucket},
		} {
			args = append(args, "--bucket", "s3://"+c.bucket+"?"+c.options)
			wantCode(t, args, txcoord(t, nil, "", args...), c.code, c.says...)
		}
	}
	if _, err := os.Stat("w"); err == nil {
		t.Error("a folder was made")
	}
}

// TestProfileThatIsNotThere: which profile, where it was looked for, and what to do.
func TestProfileThatIsNotThere(t *testing.T) {
	awsEnvironment(t, "", "")
	none := os.Getenv("AWS_CONFIG_FILE")
	says := []string{`profile "nope" is neither in ` + none + " (which is not there) nor in " + none, "aws configure --profile nope", "AWS_SHARED_CREDENTIALS_FILE"}
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--warehouse", "s3://bucket/w", "--store", "mem", "--bucket", "s3://bucket?region=x&profile=nope"},
		{"store", "check", "--store", "s3://bucket/j", "--bucket", "s3://bucket?region=x&profile=nope"},
		{"store", "check", "--store", "dynamodb://table?region=us-east-1&profile=nope"},
	} {
		wantCode(t, args, txcoord(t, nil, "", args...), 2, says...)
	}
}

func TestBucketFlagsThatMakeNoSense(t *testing.T) {
	for flag, says := range map[string]string{
		"orders":                 "write s3://NAME",
		"ftp://orders":           "write s3://NAME",
		"s3://orders/a?region=x": "write s3://NAME",
		"s3://?region=x":         "write s3://NAME",
		"s3://o?secret=x":        `there is no option "secret"; there are region, endpoint`,
		"s3://o?%zz":             "name=value&name=value",
	} {
		args := []string{"serve", "--warehouse", "w", "--bucket", flag}
		wantCode(t, args, txcoord(t, nil, "", args...), 2, says)
	}
	for _, args := range [][]string{
		{"serve", "--warehouse", "s3://bucket", "--store", "mem", "--bucket", "s3://bucket?timeout=3"},
		{"serve", "--warehouse", "s3://bucket", "--store", "mem", "--bucket", "s3://bucket?requests=-1"},
		{"serve", "--warehouse", "s3://bucket", "--store", "mem", "--bucket", "s3://bucket?region=x&addressing=z"},
		{"serve", "--warehouse", "s3://bucket", "--store", "mem", "--bucket", "s3://bucket", "--bucket", "s3a://bucket"},
		{"serve", "--warehouse", "s3://bucket/w"},
		{"serve", "--warehouse", "w", "--store", "s3://bucket/p?region=x"},
		{"serve", "--warehouse", "w", "--store", "s3://"},
		{"serve", "--warehouse", "s3://bucket/w", "--store", "s3://bucket/w/_txcoord"},
		{"serve", "--warehouse", "s3a://bucket/w/", "--store", "s3://bucket/w/_txcoord/default/manifests"},
	} {
		wantCode(t, args, txcoord(t, nil, "", append(args, "--listen", "127.0.0.1:0")...), 2)
	}
	twice := []string{"serve", "--warehouse", "s3://b/w", "--store", "s3://b/j", "--bucket", "s3://b?regoin=x"}
	if answer := txcoord(t, nil, "", twice...); strings.Count(answer.stderr, "there is no option") != 1 {
		t.Errorf("%v says more than once what is wrong: %s", twice, answer.stderr)
	}
}
