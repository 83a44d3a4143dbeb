package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// TestSettingThatIsGoneAgain: a property that another engine sets stops commits (R21),
// and those that come after it was taken away go on at once, whether anybody looked
// at the table in between or not.
func TestSettingThatIsGoneAgain(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	id := w.create("t", twophase.ModeOpen).MetaDataID
	set := func(v int, configuration string) {
		w.foreign("t", v, fmt.Appendf(nil, `{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,`+
			`"partitionColumns":[],"configuration":{%s},"createdTime":1}}`+"\n", id, schema, configuration))
	}
	w.commit("1", blind("t", "1"))
	set(2, `"delta.setTransactionRetentionDuration":"interval 7 days"`)
	if _, err := w.try("2", blind("t", "2")); err == nil {
		t.Error("committed beside the property")
	}
	wantReason(t, "a commit beside the property", second(w.try("3", blind("t", "3"))), coordinator.TableProperty)
	set(3, "")
	w.commit("4", blind("t", "4"))
}
