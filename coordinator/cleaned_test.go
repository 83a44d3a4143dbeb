package coordinator_test

import (
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// TestColdStartOnACleanedLog: while nobody served the catalog, others wrote to a
// table, made a checkpoint and cleaned the log past the version that is recorded.
// The first call after the start does not take that for damage.
func TestColdStartOnACleanedLog(t *testing.T) {
	t.Parallel()
	for name, left := range map[string][]int{"all of it": nil, "in no order": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := (&world{}).open(t)
			w.createWith(coordinator.CreateRequest{Name: "t", Schema: schema, Mode: twophase.ModeOpen, Properties: map[string]string{"delta.checkpointPolicy": "v2"}})
			w.commit("1", change("t", blindRead, add("1")))
			w.foreign("t", 2, add("2"))
			w.foreign("t", 3, add("3"))
			kept := map[int]string{}
			for _, v := range left {
				kept[v] = w.read("t", v)
			}
			w.checkpointed("t", 3, 1, "1", "2", "3")
			for v, commit := range kept {
				if err := w.objects.PutIfAbsent(w.ctx(), commitKey("t", v), []byte(commit)); err != nil {
					t.Fatal(err)
				}
			}
			w.stop()
			w.start()
			begun := w.begin("2")
			w.stage(begun.Token, change("t", blindRead, add("4")))
			if o := w.commit("3", change("t", readWhole(3), add("5"))); deliveries(o)["t"] != 4 {
				t.Errorf("after the start: %+v", o.Committed)
			}
			if f := w.info("t").Frozen; f != nil {
				t.Errorf("frozen: %+v", f)
			}
		})
	}
}
