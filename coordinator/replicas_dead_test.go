package coordinator_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
)

// A replica that died before this one began is not shown as alive, also in the first
// seconds, when nobody can have heard of it again.
func TestReplicaThatDiedBeforeTheStart(t *testing.T) {
	t.Parallel()
	one := &world{}
	one.cfg.SharedStore = true
	one.open(t)
	at := one.cfg.Now
	if at == nil {
		at = time.Now
	}
	for id, age := range map[string]time.Duration{"dead": 10 * time.Minute, "live": time.Second} {
		value, err := json.Marshal(map[string]any{"format": 1, "id": id, "build": "x", "codec": 1, "at": at().Add(-age)})
		one.must(err)
		_, err = one.store.Put(one.ctx(), "replica/"+id, value, lock.Always())
		one.must(err)
	}
	two := &world{objects: one.objects, shared: one.store}
	two.cfg.SharedStore = true
	two.open(t)
	two.eventually("the others are listed", func() bool {
		shown := map[string]bool{}
		st, err := two.catalog.Status(two.ctx())
		two.must(err)
		for _, r := range st.Replicas {
			shown[r.ID] = r.Alive
			if r.ID == "dead" && (r.Alive || r.Silent < 9*time.Minute) {
				t.Errorf("%+v", r)
			}
		}
		return len(shown) == 4 && shown["live"]
	})
}
