package engines

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/readers"
	"github.com/txcoord/txcoord/e2e/toolcache"
)

//go:embed py/spark.py
var sparkScript string

// SparkVersion is a Spark with a Delta that fits it.
type SparkVersion struct {
	// Spark is the version of the Python package, Delta the artifact.
	Spark, Delta string
	// Storage is what the artifact depends on beside Spark.
	Storage string
}

// The versions that are tested.
func Spark40() SparkVersion {
	return SparkVersion{"4.0.1", "io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0"}
}

// Spark41 is a newer one.
func Spark41() SparkVersion {
	return SparkVersion{"4.1.1", "io.delta:delta-spark_4.1_2.13:4.2.0", "io.delta:delta-storage:4.2.0"}
}

// Spark is an installed Spark.
type Spark struct {
	name, python string
	jars         []string
}

// installLimit bounds the first set-up, which downloads half a gigabyte.
const installLimit = 15 * time.Minute

// RequireSpark returns a Spark, or skips the test and says what this machine lacks:
// Java, Maven, Python. Where readers are required it fails instead.
func RequireSpark(t testing.TB, v SparkVersion) *Spark {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	s, err := install(ctx, v)
	switch {
	case err == nil:
		return s
	case os.Getenv(readers.RequireVariable) == "1":
		t.Fatalf("%s=1: Spark %s: %v", readers.RequireVariable, v.Spark, err)
	case errors.Is(err, toolcache.ErrUnavailable):
		t.Skipf("skipped, there is no Spark %s here: %v", v.Spark, err)
	default:
		t.Fatal(err)
	}
	return nil
}

func install(ctx context.Context, v SparkVersion) (*Spark, error) {
	if err := java(ctx); err != nil {
		return nil, err
	}
	venv, err := toolcache.OpenVenv(ctx, "spark-"+v.Spark, []byte("pyspark=="+v.Spark+"\n"))
	if err != nil {
		return nil, err
	}
	jars, err := toolcache.Jars(ctx, "delta-for-spark-"+v.Spark, v.Delta, v.Storage)
	if err != nil {
		return nil, err
	}
	return &Spark{name: "Spark " + v.Spark, python: venv.Python(), jars: jars}, nil
}

// oldestJava is what Spark 4 runs on.
const oldestJava = 17

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// java looks for a Java where Spark looks for it.
func java(ctx context.Context) error {
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	out, err := exec.CommandContext(ctx, name, "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: no Java: %w", toolcache.ErrUnavailable, err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%w: %s says no version: %s", toolcache.ErrUnavailable, name, out)
	}
	if n, err := strconv.Atoi(string(m[1])); err != nil || n < oldestJava {
		return fmt.Errorf("%w: Java %s, and Spark needs %d or newer", toolcache.ErrUnavailable, m[1], oldestJava)
	}
	return nil
}

// Start starts a Spark of its own for a test, on two threads; it takes some ten
// seconds until it answers.
func (s *Spark) Start(t testing.TB) *SparkSession {
	t.Helper()
	hello := map[string]any{"jars": s.jars, "folder": t.TempDir()}
	// Spark listens only where the machine talks to itself.
	environment := []string{"SPARK_LOCAL_IP=127.0.0.1", "PYSPARK_PYTHON=" + s.python}
	return &SparkSession{start(t, s.name, s.python, sparkScript, environment, hello)}
}

// SparkSession is a running Spark.
type SparkSession struct{ *Session }

// SQL carries out one statement. What it commits carries the mark as its
// userMetadata, if there is one.
func (s *SparkSession) SQL(ctx context.Context, mark, statement string) ([]Row, error) {
	rows, err := s.do(ctx, map[string]any{"sql": statement, "mark": mark})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	return rows, nil
}

// SparkTable is how SQL names the table in a folder.
func SparkTable(folder string) string {
	return "delta.`" + strings.ReplaceAll(folder, "`", "``") + "`"
}
