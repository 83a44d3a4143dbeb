package deploy_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/e2e/servers"
)

// hadolint has nothing to say, and the image is what README.md and the manifests say.
func TestImage(t *testing.T) {
	if out := ran(t, nil, filepath.Join(python(t), "hadolint"), "--failure-threshold=style", "Dockerfile"); out != "" {
		t.Error(out)
	}
	text := read(t, "Dockerfile")
	_, final, _ := strings.Cut(text, "FROM scratch\n")
	for _, want := range []string{"USER 65532:65532\n", "EXPOSE 7401 7402\n", `ENTRYPOINT ["/usr/bin/txcoord"]`, "COPY --from=build /image/ /\n"} {
		if !strings.Contains(final, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	if !strings.Contains(text, "ARG GO_VERSION="+goes+"\n") || !strings.Contains(text, "CGO_ENABLED=0") {
		t.Errorf("it is not built with Go %s, or not static", goes)
	}
	for _, folder := range builds {
		if user := build(t, folder).template(t).Spec.SecurityContext.RunAsUser; user != 65532 {
			t.Errorf("%s runs it as %d", folder, user)
		}
	}
	for _, cmd := range regexp.MustCompile(`CMD (\[.*\])`).FindAllStringSubmatch(final, -1) {
		var words []string
		if err := yaml.Unmarshal([]byte(cmd[1]), &words); err != nil {
			t.Fatal(err)
		}
		if words[0] == "/usr/bin/txcoord" {
			words = words[1:]
		}
		ran(t, nil, program(t), append(words, "--help")...)
	}
}

// The build copies the whole repository, but for what git ignores: a file that git misses
// would make the version a dirty one.
func TestImageContextLosesNothing(t *testing.T) {
	var ignored []string
	for _, l := range strings.Split(read(t, "Dockerfile.dockerignore"), "\n") {
		if l != "" && !strings.HasPrefix(l, "#") {
			ignored = append(ignored, l)
		}
	}
	if len(ignored) == 0 {
		t.Fatal("nothing is ignored")
	}
	for _, name := range strings.Split(ran(t, nil, "git", "-C", "..", "ls-files"), "\n") {
		for _, pattern := range ignored {
			first, _, _ := strings.Cut(name, "/")
			place := first
			if rest, ok := strings.CutPrefix(pattern, "**/"); ok {
				pattern, place = rest, filepath.Base(name)
			}
			if ok, err := filepath.Match(pattern, place); err != nil || ok {
				t.Errorf("%s fits %s (%v)", name, pattern, err)
			}
		}
	}
}

// systemd takes the unit, and finds little that it could still do.
func TestUnit(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze: only what needs none is checked")
	} else {
		unit := filepath.Join(t.TempDir(), "txcoord.service")
		put(t, unit, strings.ReplaceAll(read(t, "systemd/txcoord.service"), "/usr/bin/txcoord", program(t)))
		if out := ran(t, nil, systemd, "verify", unit); strings.Contains(out, unit) {
			t.Error(out)
		}
		ran(t, nil, systemd, "security", "--offline=true", "--threshold=15", unit)
	}
	text := read(t, "systemd/txcoord.service")
	start := strings.Fields(regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text)[1])
	if !slices.Equal(start, []string{"/usr/bin/txcoord", "serve", "--config", "/etc/txcoord/txcoord.yaml"}) {
		t.Errorf("it starts %q", start)
	}
	// The file that goes with it, with its files below another root.
	root := t.TempDir()
	cert, key := certificate(t, "db.example.com")
	put(t, root+"/etc/txcoord/tls.crt", cert)
	put(t, root+"/etc/txcoord/tls.key", key)
	put(t, root+"/etc/txcoord/access.yaml", read(t, "kubernetes/access.example.yaml"))
	config := root + "/etc/txcoord/txcoord.yaml"
	put(t, config, regexp.MustCompile(`/(etc|var)/`).ReplaceAllString(read(t, "systemd/txcoord.yaml"), root+"/$1/"))
	ran(t, nil, program(t), "config", "check", config)
	print := ran(t, nil, program(t), "config", "print", config)
	places := regexp.MustCompile(`(/var/[a-z]+/[a-z]+)/`).FindAllStringSubmatch(strings.ReplaceAll(print, root, ""), -1)
	if len(places) < 3 {
		t.Errorf("warehouse, journal and audit log are not all below /var: %v", places)
	}
	for _, m := range places {
		folder := map[string]string{"/var/lib/txcoord": "StateDirectory=txcoord\n", "/var/log/txcoord": "LogsDirectory=txcoord\n"}[m[1]]
		if folder == "" || !strings.Contains(text, folder) {
			t.Errorf("the unit may not write %s", m[1])
		}
	}
}

type release struct {
	Version int
	Builds  []struct {
		Main, Binary string
		Env          []string
		Flags        []string
	}
	Archives []struct{ Files []string }
	NFPMs    []struct {
		Bindir   string
		Contents []struct{ Src, Dst string }
		Scripts  struct{ Preinstall string }
	}
}

// goreleaser's own reading of its configuration takes the file, and would not take one
// with a mistake in it. It is the reading of the version that makes releases.
func TestReleaseConfiguration(t *testing.T) {
	check := servers.Tool(t, "releasecheck", ".")
	ran(t, nil, check, "goreleaser.yaml")
	right := read(t, "goreleaser.yaml")
	for was, wrong := range map[string]string{
		"    goos: [": "    goose: [", "    formats: [tar.gz]": "    formats: {tar.gz: 1}", "version: 2\n": "version: 1\n",
	} {
		file := filepath.Join(t.TempDir(), "wrong.yaml")
		put(t, file, strings.Replace(right, was, wrong, 1))
		if out, err := tried(t, nil, check, file); err == nil || !strings.Contains(out, "releasecheck:") {
			t.Errorf("it takes %q in the place of %q: %v %s", wrong, was, err, out)
		}
	}
	module := "github.com/goreleaser/goreleaser/v2"
	version := regexp.MustCompile(`(?m)^GORELEASER := ` + module + `@(\S+)$`).FindStringSubmatch(read(t, "../Makefile"))
	if version == nil || !strings.Contains(read(t, "../tools/releasecheck/go.mod"), " "+module+" "+version[1]+"\n") {
		t.Errorf("releases are made with %q, and checked with another", version)
	}
}

// The release builds the same program, and the files that it takes along are there.
func TestRelease(t *testing.T) {
	var r release
	if err := yaml.Unmarshal([]byte(read(t, "goreleaser.yaml")), &r); err != nil {
		t.Fatal(err)
	}
	b := r.Builds[0]
	if r.Version != 2 || b.Main != "./cmd/txcoord" || b.Binary != "txcoord" || !slices.Contains(b.Env, "CGO_ENABLED=0") {
		t.Errorf("it builds %+v", b)
	}
	files := []string{r.NFPMs[0].Scripts.Preinstall}
	for _, c := range r.NFPMs[0].Contents {
		files = append(files, c.Src)
		text := read(t, "systemd/txcoord.service")
		if strings.HasPrefix(c.Dst, "/etc/") && !strings.Contains(text, c.Dst) {
			t.Errorf("the unit does not read %s", c.Dst)
		}
	}
	for _, pattern := range append(files, r.Archives[0].Files...) {
		if all, err := filepath.Glob(filepath.Join("..", strings.ReplaceAll(pattern, "/**", ""))); err != nil || len(all) == 0 {
			t.Errorf("there is no %s", pattern)
		}
	}
	if start := r.NFPMs[0].Bindir + "/txcoord"; !strings.Contains(read(t, "systemd/txcoord.service"), "ExecStart="+start+" ") {
		t.Errorf("the unit does not start %s", start)
	}
}
