package manifest_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/twophase"
)

// What docs/operations.md says of the size of old manifests is what they have.
func TestDocumentedSize(t *testing.T) {
	sized := func(n int) int {
		delta := manifest.Delta{
			Snapshot: 500_000, Timestamp: 1_796_000_000_000, Kind: "publication", Transactions: []string{fmt.Sprintf("%032x", 1)},
		}
		for i := range n {
			delta.Tables = append(delta.Tables, manifest.Table{
				ID: twophase.TableID(fmt.Sprintf("t-%016x", i)), Name: fmt.Sprintf("sales_%05d", i), URI: fmt.Sprintf("s3://lake/warehouse/sales_%05d", i), Version: 100_000,
			})
		}
		b, err := delta.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`some (\d+) bytes and (\d+) for each table`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page does not say how large they are")
	}
	for i, real := range []int{sized(0), sized(1000) / 1000} {
		if said, err := strconv.Atoi(string(m[1+i])); err != nil || real < said*8/10 || real > said*12/10 {
			t.Errorf("the page says %d bytes, it is %d", said, real)
		}
	}
}
