package deploy_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/servers"
)

type policy struct{ Statement []statement }

type statement struct {
	Sid, Effect      string
	Action, Resource []string
	Condition        map[string]map[string]any
}

type infrastructure map[string]map[string]json.RawMessage

func terraform(t *testing.T) infrastructure {
	t.Helper()
	return checked[infrastructure](t, "terraform", "terraform", `bucket="lake"`, `log_store_table="delta_log"`)
}

func (i infrastructure) policy(t *testing.T, name string) policy {
	t.Helper()
	return decode[policy](t, json.RawMessage(decode[string](t, i[name]["policy"])))
}

// The table is what `store init` makes, and what docs/stores.md asks of one.
func TestTable(t *testing.T) {
	got := terraform(t)["aws_dynamodb_table.journal"]
	for key, want := range map[string]string{
		"hash_key": `"pk"`, "range_key": `"sk"`, "billing_mode": `"PAY_PER_REQUEST"`, "deletion_protection_enabled": "true",
		"attribute": `[{"name":"pk","type":"S"},{"name":"sk","type":"S"}]`, "lifecycle": `[{"prevent_destroy":true}]`,
		"point_in_time_recovery": `[{"enabled":true}]`,
	} {
		if string(got[key]) != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
	for _, key := range []string{"ttl", "replica", "stream_enabled"} {
		if got[key] != nil {
			t.Errorf("it has a %s", key)
		}
	}
}

// parliament knows which actions, resources and conditions AWS has.
func TestPoliciesAreWellFormed(t *testing.T) {
	bin, all := python(t), terraform(t)
	findings := func(policy string) string {
		env := []string{"PYTHONWARNINGS=ignore"}
		out, _ := tried(t, env, filepath.Join(bin, "parliament"), "--string", policy, "--minimum_severity", "LOW") // it fails with findings
		return strings.TrimSpace(out)
	}
	service := decode[string](t, all["aws_iam_policy.service"]["policy"])
	for _, name := range []string{"aws_iam_policy.service", "aws_iam_policy.writer", "aws_iam_policy.reader"} {
		if out := findings(decode[string](t, all[name]["policy"])); out != "" {
			t.Errorf("%s: %s", name, out)
		}
	}
	for right, wrong := range map[string]string{"dynamodb:GetItem": "dynamodb:GetItems", `["arn:aws:s3:::lake"]`: `["arn:aws:s3:::lake/x"]`} {
		if out := findings(strings.ReplaceAll(service, right, wrong)); out == "" {
			t.Errorf("it takes %s", wrong)
		}
	}
}

// calls are the operations for which the code of a package makes an input, by the
// SDK's package.
func calls(t *testing.T, sdk string, folders ...string) (out []string) {
	t.Helper()
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				made, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				if s, ok := made.Type.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == sdk && strings.HasSuffix(s.Sel.Name, "Input") {
						out = append(out, strings.TrimSuffix(s.Sel.Name, "Input"))
					}
				}
				return true
			})
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// What the service may do is what the code of the server calls, and no more.
func TestServiceMayDoWhatTheCodeCalls(t *testing.T) {
	allowed := map[string][]string{}
	for _, s := range terraform(t).policy(t, "aws_iam_policy.service").Statement {
		if s.Effect != "Allow" {
			t.Errorf("%s is no permission", s.Sid)
		}
		for _, a := range s.Action {
			key, name, _ := strings.Cut(a, ":")
			if s.Sid == "SparkLogStore" {
				key = s.Sid
			}
			allowed[key] = append(allowed[key], name)
		}
	}
	for key, all := range allowed {
		slices.Sort(all)
		allowed[key] = slices.Compact(all)
	}
	journal := calls(t, "dynamodb", "lock/dynamostore", "internal/dynamoapi")
	// `txcoord store init` makes a table, and Terraform does here.
	journal = slices.DeleteFunc(journal, func(name string) bool { return name == "CreateTable" })
	actions := map[string]string{
		"GetObject": "GetObject", "HeadObject": "GetObject", "PutObject": "PutObject", "DeleteObject": "DeleteObject", "ListObjectsV2": "ListBucket",
	}
	var objects []string
	for _, name := range calls(t, "s3", "tables/objstore/s3obj") {
		if actions[name] == "" {
			t.Errorf("which permission does %s need?", name)
		}
		objects = append(objects, actions[name])
	}
	slices.Sort(objects)
	want := map[string][]string{
		"dynamodb": journal, "SparkLogStore": calls(t, "dynamodb", "tables/logstore/dynamo", "internal/dynamoapi"), "s3": slices.Compact(objects),
	}
	if diff := cmp.Diff(want, allowed); diff != "" {
		t.Errorf("what the code calls (-), what the policy allows (+):\n%s", diff)
	}
	// Nobody else makes such a call.
	used := map[string][]string{}
	for _, p := range strings.Split(ran(t, nil, "go", "list", "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "../cmd/txcoord"), "\n") {
		name, imports, _ := strings.Cut(p, " ")
		for _, sdk := range []string{"dynamodb", "s3"} {
			if strings.HasPrefix(name, "github.com/txcoord/") && slices.Contains(strings.Fields(imports), "github.com/aws/aws-sdk-go-v2/service/"+sdk) {
				used[sdk] = append(used[sdk], strings.TrimPrefix(name, "github.com/txcoord/txcoord/"))
			}
		}
	}
	for sdk := range used {
		slices.Sort(used[sdk])
	}
	if diff := cmp.Diff(map[string][]string{
		"dynamodb": {"internal/dynamoapi", "lock/dynamostore", "tables/logstore/dynamo"}, "s3": {"tables/objstore/s3obj"},
	}, used); diff != "" {
		t.Errorf("other packages call AWS, too:\n%s", diff)
	}
}

// request is one as IAM sees it: conditions' keys are there or not.
type request struct {
	action, resource string
	keys             map[string]string
}

// like is a pattern of IAM: * is any text, ? any character.
func like(pattern, text string) bool {
	p := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("(?s)^" + p + "$").MatchString(text)
}

func (s statement) fits(t *testing.T, r request) bool {
	t.Helper()
	one := func(patterns []string, text string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return like(p, text) })
	}
	if !one(s.Action, r.action) || !one(s.Resource, r.resource) {
		return false
	}
	for operator, all := range s.Condition {
		for key, want := range all {
			have, there := r.keys[key]
			var holds bool
			switch operator {
			case "ForAllValues:StringLike": // holds of none, too
				holds = !there || slices.ContainsFunc(want.([]any), func(p any) bool { return like(p.(string), have) })
			case "Null":
				holds = (want == "true") == !there
			case "Bool":
				holds = there && have == want
			default:
				t.Fatalf("%s: the test does not know %s", s.Sid, operator)
			}
			if !holds {
				return false
			}
		}
	}
	return true
}

// allows says what IAM would, by a principal's policy and the bucket's: whoever is
// refused by one is refused, the rest needs a permission.
func allows(t *testing.T, r request, policies ...policy) bool {
	t.Helper()
	allowed := false
	for _, p := range policies {
		for _, s := range p.Statement {
			if s.fits(t, r) {
				if s.Effect == "Deny" {
					return false
				}
				allowed = true
			}
		}
	}
	return allowed
}

// commitPut is the put of a version's file, as a single request.
func commitPut(name string, conditional bool) request {
	r := request{"s3:PutObject", "arn:aws:s3:::lake/warehouse/" + name, map[string]string{"s3:ObjectCreationOperation": "true"}}
	if conditional {
		r.keys["s3:if-none-match"] = "*"
	}
	return r
}

func TestWhoMayWhat(t *testing.T) {
	all := terraform(t)
	service, writer, reader := all.policy(t, "aws_iam_policy.service"), all.policy(t, "aws_iam_policy.writer"), all.policy(t, "aws_iam_policy.reader")
	bucket := all.policy(t, "aws_s3_bucket_policy.commits")
	const commit = "orders/_delta_log/00000000000000000007.json"
	get := func(name string) request { return request{"s3:GetObject", "arn:aws:s3:::lake/" + name, nil} }
	part := commitPut(commit, false)
	part.keys["s3:ObjectCreationOperation"] = "false"
	for _, c := range []struct {
		what  string
		who   policy
		asked request
		want  bool
	}{
		{"the server commits", service, commitPut(commit, true), true},
		{"it commits to a table that is the warehouse", service, commitPut("_delta_log/00000000000000000007.json", true), true},
		{"nobody overwrites a commit", service, commitPut(commit, false), false},
		{"nor that of a table at the top", service, commitPut("_delta_log/00000000000000000007.json", false), false},
		{"a multipart upload begins without a condition", service, part, true},
		{"checkpoints need none", service, commitPut("orders/_delta_log/00000000000000000007.checkpoint.parquet", false), true},
		{"nor V2 checkpoints in JSON", service, commitPut("orders/_delta_log/00000000000000000007.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", false), true},
		{"nor checksums", service, commitPut("orders/_delta_log/00000000000000000007.crc", false), true},
		{"nor the owner object", service, commitPut("orders/_delta_log/_txcoord/owner.json", false), true},
		{"nor data", service, commitPut("orders/a.parquet", false), true},
		{"the server stays below the warehouse", service, get("other/a.parquet"), false},
		{"a writer writes data", writer, commitPut("orders/day=1/a.parquet", false), true},
		{"a writer writes no log", writer, commitPut(commit, true), false},
		{"nor one at the top", writer, commitPut("_delta_log/00000000000000000007.json", true), false},
		{"nor the server's objects", writer, commitPut("_txcoord/default/manifests/1.json", true), false},
		{"a writer reads", writer, get("warehouse/orders/a.parquet"), true},
		{"a writer deletes nothing", writer, request{"s3:DeleteObject", "arn:aws:s3:::lake/warehouse/orders/a.parquet", nil}, false},
		{"a writer has no journal", writer, request{"dynamodb:GetItem", "arn:aws:dynamodb:eu-central-1:111122223333:table/txcoord", nil}, false},
		{"a reader reads data", reader, get("warehouse/orders/a.parquet"), true},
		{"a reader reads manifests", reader, get("warehouse/_txcoord/default/manifests/1.json"), true},
		{"a reader does not read what is staged", reader, get("warehouse/_txcoord/default/staged/1"), false},
		{"a reader does not read what was staged", reader, get("warehouse/_txcoord/default/quarantine/20261130T020000Z-0a1b2c3d/objects/staged/1"), false},
		{"a writer does not read what was staged", writer, get("warehouse/_txcoord/default/lost/1/t/2"), false},
		{"a reader writes nothing", reader, commitPut("orders/a.parquet", true), false},
		{"another catalog's journal", service, request{
			"dynamodb:PutItem", "arn:aws:dynamodb:eu-central-1:111122223333:table/txcoord", map[string]string{"dynamodb:LeadingKeys": "txcoord/other/rest"},
		}, false},
	} {
		if got := allows(t, c.asked, c.who, bucket); got != c.want {
			t.Errorf("%s: allowed is %v", c.what, got)
		}
	}
}

// recorder is a proxy that notes what is asked.
type recorder struct {
	url string
	mu  sync.Mutex
	all []request
}

func record(t *testing.T, target string, read func(*http.Request, []byte) request) *recorder {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec.mu.Lock()
		rec.all = append(rec.all, read(r, body))
		rec.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	rec.url = s.URL
	return rec
}

// dynamoRequest reads one of DynamoDB's API.
func dynamoRequest(r *http.Request, body []byte) request {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		TableName string
		Item, Key struct{ PK struct{ S string } }
		Values    struct {
			P struct{ S string } `json:":p"`
		} `json:"ExpressionAttributeValues"`
	}
	keys := map[string]string{}
	if json.Unmarshal(body, &in) == nil {
		if pk := in.Item.PK.S + in.Key.PK.S + in.Values.P.S; pk != "" {
			keys["dynamodb:LeadingKeys"] = pk
		}
	}
	return request{"dynamodb:" + operation, "arn:aws:dynamodb:eu-central-1:111122223333:table/" + in.TableName, keys}
}

// s3Request reads one of S3's API, the bucket in its path.
func s3Request(r *http.Request, _ []byte) request {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if key == "" {
		return request{r.Method + " bucket", "arn:aws:s3:::" + bucket, nil}
	}
	out := request{r.Method, "arn:aws:s3:::" + bucket + "/" + key, map[string]string{}}
	if v := r.Header.Get("If-None-Match"); v != "" {
		out.keys["s3:if-none-match"] = v
	}
	if r.Method == http.MethodPut {
		out.keys["s3:ObjectCreationOperation"] = "true"
	}
	return out
}

// A server's whole life, with journal and tables behind a proxy: the service's policy
// allows each request, none of them is refused by the bucket's, and all that the policies
// allow is used, but for the log store of Spark's.
func TestRequestsAreAllowed(t *testing.T) {
	all := terraform(t)
	service, bucket := all.policy(t, "aws_iam_policy.service"), all.policy(t, "aws_s3_bucket_policy.commits")
	dynamo, s3 := servers.StartKumo(t), servers.StartVersity(t)
	if err := os.Mkdir(s3.Folder("lake"), 0o755); err != nil {
		t.Fatal(err)
	}
	items, objects := record(t, dynamo.Endpoint, dynamoRequest), record(t, s3.Endpoint, s3Request)
	// One pair of keys for both: each server is told which.
	env := []string{"AWS_ACCESS_KEY_ID=" + s3.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3.SecretKey}
	store := "--store=dynamodb://txcoord?region=" + dynamo.Region + "&endpoint="
	ran(t, env, program(t), "store", "init", store+dynamo.Endpoint)
	s := serving(t, env, "serve", "--listen=127.0.0.1:0", store+items.url, "--warehouse=s3://lake/warehouse", "--bucket=s3://*?region="+s3.Region+"&endpoint="+objects.url)
	live(t, "TXCOORD_SERVER="+s.grpc)
	s.stop()

	actions := map[string]string{"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject", "GET bucket": "s3:ListBucket"}
	used, commits := map[string]bool{}, 0
	for _, r := range slices.Concat(items.all, objects.all) {
		if a, ok := actions[r.action]; ok {
			r.action = a
		}
		if !allows(t, r, service, bucket) {
			t.Errorf("it may not %+v", r)
		}
		used[r.action] = true
		if without := (request{r.action, r.resource, map[string]string{"s3:ObjectCreationOperation": "true"}}); r.action == "s3:PutObject" && !allows(t, without, service, bucket) {
			commits++
		}
	}
	if commits < 4 {
		t.Errorf("%d puts of commits were seen", commits)
	}
	for _, s := range service.Statement {
		for _, a := range s.Action {
			if !used[a] && s.Sid != "SparkLogStore" {
				t.Errorf("%s was not needed", a)
			}
		}
	}
}

// live makes two tables, commits small and large parts to both, aborts, puts the logs in
// order, and forgets a table.
func live(t *testing.T, env string) {
	t.Helper()
	say := func(args ...string) string { return strings.TrimSpace(ran(t, []string{env}, program(t), args...)) }
	for _, name := range []string{"orders", "items"} {
		say("tables", "create", name, "s3://lake/warehouse/"+name, "--column", "id BIGINT")
	}
	const line = `{"add":{"path":"NAME.parquet","partitionValues":{},"size":812,"modificationTime":1795971223975,"dataChange":true}}` + "\n"
	var large strings.Builder
	for i := range 400 { // more than stays in the journal's store
		large.WriteString(strings.Replace(line, "NAME", strings.Repeat("x", 40)+string(rune('a'+i%26))+strings.Repeat("y", i/26), 1))
	}
	files := t.TempDir()
	put(t, filepath.Join(files, "small"), strings.Replace(line, "NAME", "a", 1))
	put(t, filepath.Join(files, "large"), large.String())
	token := say("tx", "begin", "--key", "one", "-o", "id")
	first := say("tx", "stage", "orders", filepath.Join(files, "large"), "--token", token, "-o", "id")
	second := say("tx", "stage", "items", filepath.Join(files, "small"), "--token", token, "-o", "id")
	say("tx", "commit", "--token", token, first, second)
	token = say("tx", "begin", "--key", "two", "-o", "id")
	say("tx", "stage", "orders", filepath.Join(files, "large"), "--token", token, "-o", "id")
	say("tx", "abort", "--token", token)
	say("tables", "maintain", "--all")
	say("snapshot", "get")
	say("tables", "release", "items")
}
