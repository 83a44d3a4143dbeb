package readers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os/exec"
	"path/filepath"
)

// Engine is one that reads.
type Engine string

// The engines.
const (
	DeltaRS Engine = "delta_rs"
	DuckDB  Engine = "duck"
)

// Engines lists all of them.
func Engines() []Engine { return []Engine{DeltaRS, DuckDB} }

// Latest stands in a Result for "the newest version", whatever it was.
const Latest int64 = -1

// Query asks for a table's rows at versions.
type Query struct {
	// Name comes back in the results.
	Name string `json:"name"`
	// Path is the table's folder, absolute; for delta-rs also a URI, with its options.
	Path           string            `json:"path"`
	StorageOptions map[string]string `json:"storage_options,omitempty"`
	// Versions to read, and whether the newest one is read as well.
	Versions []int64 `json:"versions"`
	Latest   bool    `json:"latest"`
	// Sums are the columns to add up.
	Sums []string `json:"sums"`
}

// Result is one table at one version, as one engine sees it.
type Result struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Count   int64  `json:"count"`
	// Sums are decimal numbers, exact for integers and decimals.
	Sums map[string]string `json:"sums"`
}

// Read asks one engine, in one process. Results come in the order of the queries,
// of their versions, the newest last.
func (p *Python) Read(ctx context.Context, e Engine, queries ...Query) ([]Result, error) {
	in, err := json.Marshal(queries)
	if err != nil {
		return nil, err
	}
	cmd := p.command(ctx, string(e)+".py")
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("read with %s: %w: %s", e, err, tail(stderr.Bytes()))
	}
	return results(e, out.Bytes())
}

func results(e Engine, out []byte) ([]Result, error) {
	var rs []Result
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read with %s: %w in %q", e, err, lines.Text())
		}
		rs = append(rs, r)
	}
	return rs, nil
}

func (p *Python) command(ctx context.Context, script string) *exec.Cmd {
	// Isolated from the caller's PYTHONPATH; the script's own folder stays first.
	return exec.CommandContext(ctx, p.Path, "-E", "-s", filepath.Join(p.scripts, script))
}

// ReadAgreed asks every engine and wants the same answers of all of them.
func (p *Python) ReadAgreed(ctx context.Context, queries ...Query) ([]Result, error) {
	var agreed []Result
	for _, e := range Engines() {
		rs, err := p.Read(ctx, e, queries...)
		if err != nil {
			return nil, err
		}
		if agreed == nil {
			agreed = rs
			continue
		}
		if len(rs) != len(agreed) {
			return nil, fmt.Errorf("%s gives %d answers, %s %d", e, len(rs), Engines()[0], len(agreed))
		}
		for i := range rs {
			if !rs[i].Equal(agreed[i]) {
				return nil, fmt.Errorf("%s reads %+v, %s %+v", e, rs[i], Engines()[0], agreed[i])
			}
		}
	}
	return agreed, nil
}

// Equal compares two results: counts exactly, sums as numbers, those of floats up
// to the rounding of the last digits.
func (r Result) Equal(o Result) bool {
	if r.Name != o.Name || r.Version != o.Version || r.Count != o.Count || len(r.Sums) != len(o.Sums) {
		return false
	}
	for column, sum := range r.Sums {
		if !SameNumber(sum, o.Sums[column]) {
			return false
		}
	}
	return true
}

// SameNumber compares two decimal numbers.
func SameNumber(a, b string) bool {
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	if !okX || !okY {
		return a == b
	}
	if x.Cmp(y) == 0 || x.IsInt() && y.IsInt() {
		return x.Cmp(y) == 0
	}
	fx, _ := x.Float64()
	fy, _ := y.Float64()
	return math.Abs(fx-fy) <= 1e-9*max(math.Abs(fx), math.Abs(fy))
}
