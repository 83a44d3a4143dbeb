package objtest_test

import (
	"bytes"
	"context"
	"iter"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// broken is a good store of which one method has a defect.
type broken struct {
	objstore.Store
	get    func(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error)
	stat   func(ctx context.Context, key string) (objstore.Info, error)
	absent func(ctx context.Context, key string, data []byte) error
	put    func(ctx context.Context, key string, data []byte) error
	list   func(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error]
	delete func(ctx context.Context, key string) error
}

func (b broken) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if b.get != nil {
		return b.get(ctx, key, r)
	}
	return b.Store.Get(ctx, key, r)
}

func (b broken) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if b.stat != nil {
		return b.stat(ctx, key)
	}
	return b.Store.Stat(ctx, key)
}

func (b broken) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if b.absent != nil {
		return b.absent(ctx, key, data)
	}
	return b.Store.PutIfAbsent(ctx, key, data)
}

func (b broken) Put(ctx context.Context, key string, data []byte) error {
	if b.put != nil {
		return b.put(ctx, key, data)
	}
	return b.Store.Put(ctx, key, data)
}

func (b broken) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	if b.list != nil {
		return b.list(ctx, o)
	}
	return b.Store.List(ctx, o)
}

func (b broken) Delete(ctx context.Context, key string) error {
	if b.delete != nil {
		return b.delete(ctx, key)
	}
	return b.Store.Delete(ctx, key)
}

// relist makes a listing of another one.
func relist(s objstore.Store, ask func(*objstore.ListOptions), change func([]objstore.Entry) []objstore.Entry) broken {
	return broken{Store: s, list: func(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
		return func(yield func(objstore.Entry, error) bool) {
			ask(&o)
			var entries []objstore.Entry
			for e, err := range s.List(ctx, o) {
				if err != nil {
					yield(objstore.Entry{}, err)
					return
				}
				entries = append(entries, e)
			}
			for _, e := range change(entries) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}}
}

func asAsked(*objstore.ListOptions)                  {}
func asIs(entries []objstore.Entry) []objstore.Entry { return entries }
func holds(ctx context.Context, s objstore.Store, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// defects are broken stores under the name of the case that has to find them.
var defects = []struct {
	what, foundBy string
	store         func(s objstore.Store) objstore.Store
}{
	{"an empty object is not written", "PutCanBeRead", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			if len(data) == 0 {
				return nil
			}
			return s.PutIfAbsent(ctx, key, data)
		}}
	}},
	{"put-if-absent overwrites", "PutIfAbsentKeepsTheFirst", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: s.Put}
	}},
	{"the same bytes are taken for the same put", "PutIfAbsentKeepsTheFirst", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			if got, _, err := s.Get(ctx, key, objstore.Range{}); err == nil && bytes.Equal(got, data) {
				return nil
			}
			return s.PutIfAbsent(ctx, key, data)
		}}
	}},
	{"get answers what it answered before", "PutReplaces", func(s objstore.Store) objstore.Store {
		var cache sync.Map
		type answer struct {
			data []byte
			info objstore.Info
		}
		return broken{Store: s, get: func(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
			data, info, err := s.Get(ctx, key, r)
			if err != nil {
				return nil, info, err
			}
			old, _ := cache.LoadOrStore(key, answer{data, info})
			return old.(answer).data, old.(answer).info, nil
		}}
	}},
	{"a missing object is empty", "MissingIsNotFound", func(s objstore.Store) objstore.Store {
		return broken{Store: s, get: func(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
			if objstore.CheckKey(key) == nil && ctx.Err() == nil && !holds(ctx, s, key) {
				return nil, objstore.Info{Key: key}, nil
			}
			return s.Get(ctx, key, r)
		}}
	}},
	{"delete does nothing", "DeleteRemoves", func(s objstore.Store) objstore.Store {
		return broken{Store: s, delete: func(ctx context.Context, key string) error {
			_, err := s.Stat(ctx, key)
			if holds(ctx, s, key) {
				return nil
			}
			return err
		}}
	}},
	{"a range from the end counts from the start", "RangesAreClipped", func(s objstore.Store) objstore.Store {
		return broken{Store: s, get: func(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
			return s.Get(ctx, key, objstore.Range{Offset: max(r.Offset, -r.Offset), Length: r.Length})
		}}
	}},
	{"bytes are shared", "BytesAreCopied", func(s objstore.Store) objstore.Store {
		var last sync.Map
		return broken{
			Store: s,
			put: func(ctx context.Context, key string, data []byte) error {
				last.Store(key, data)
				return s.Put(ctx, key, data)
			},
			get: func(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
				data, info, err := s.Get(ctx, key, r)
				if shared, ok := last.Load(key); ok && err == nil && r == (objstore.Range{}) {
					return shared.([]byte), info, nil
				}
				return data, info, err
			},
		}
	}},
	{"objects are cut", "LargeObjects", func(s objstore.Store) objstore.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, data []byte) error {
			return s.Put(ctx, key, data[:min(len(data), 16<<20)])
		}}
	}},
	{"keys are unquoted", "KeysAreTakenLiterally", func(s objstore.Store) objstore.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, data []byte) error {
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			return s.Put(ctx, key, data)
		}}
	}},
	{"keys are cleaned", "BadKeysAreRefused", func(s objstore.Store) objstore.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, data []byte) error {
			return s.Put(ctx, strings.Trim(key, "/."), data)
		}}
	}},
	{"stat and get disagree", "InfoDescribesTheObject", func(s objstore.Store) objstore.Store {
		return broken{Store: s, stat: func(ctx context.Context, key string) (objstore.Info, error) {
			info, err := s.Stat(ctx, key)
			info.ETag = "\"" + info.ETag + "\""
			return info, err
		}}
	}},
	{"the ETag is the size", "ETagChangesWithTheContent", func(s objstore.Store) objstore.Store {
		return broken{Store: s, stat: func(ctx context.Context, key string) (objstore.Info, error) {
			info, err := s.Stat(ctx, key)
			info.ETag = string(rune('0' + info.Size))
			return info, err
		}}
	}},
	{"objects are files", "KeysNest", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			for e, err := range s.List(ctx, objstore.ListOptions{Prefix: key + "/"}) {
				if err != nil || e.Key != "" {
					return context.Canceled
				}
			}
			return s.PutIfAbsent(ctx, key, data)
		}}
	}},
	{"contexts are ignored", "CancelledDoesNothing", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			return s.PutIfAbsent(context.WithoutCancel(ctx), key, data)
		}}
	}},
	{"listing by time", "ListIsInByteOrder", func(s objstore.Store) objstore.Store {
		return relist(s, asAsked, func(entries []objstore.Entry) []objstore.Entry {
			slices.SortStableFunc(entries, func(a, b objstore.Entry) int { return a.Modified.Compare(b.Modified) })
			return entries
		})
	}},
	{"folders are walked by name", "ListIsInByteOrder", func(s objstore.Store) objstore.Store {
		return relist(s, asAsked, func(entries []objstore.Entry) []objstore.Entry {
			slices.SortStableFunc(entries, func(a, b objstore.Entry) int {
				return slices.Compare(strings.Split(a.Prefix+a.Key, "/"), strings.Split(b.Prefix+b.Key, "/"))
			})
			return entries
		})
	}},
	{"the first page is all", "ListMissesNothing", func(s objstore.Store) objstore.Store {
		return relist(s, asAsked, func(entries []objstore.Entry) []objstore.Entry { return entries[:min(len(entries), 1000)] })
	}},
	{"a key is lost between two pages", "ListMissesNothing", func(s objstore.Store) objstore.Store {
		return relist(s, asAsked, func(entries []objstore.Entry) []objstore.Entry {
			if len(entries) > 1000 {
				entries = slices.Delete(entries, 1000, 1001)
			}
			return entries
		})
	}},
	{"prefixes end at slashes", "ListHonoursThePrefix", func(s objstore.Store) objstore.Store {
		return relist(s, func(o *objstore.ListOptions) {
			if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
				o.Prefix += "/"
			}
		}, asIs)
	}},
	{"StartAfter is not applied below folders", "ListStartsAfter", func(s objstore.Store) objstore.Store {
		return relist(s, func(o *objstore.ListOptions) {
			if i := strings.IndexByte(o.StartAfter, '/'); i > 0 && !o.Delimiter {
				o.StartAfter = o.StartAfter[:i]
			}
		}, asIs)
	}},
	{"the delimiter is ignored", "DelimiterFoldsFolders", func(s objstore.Store) objstore.Store {
		return relist(s, func(o *objstore.ListOptions) { o.Delimiter = false }, asIs)
	}},
	{"listings are eventual", "ListFollowsPutsAndDeletes", func(s objstore.Store) objstore.Store {
		var late atomic.Int32
		return relist(s, asAsked, func(entries []objstore.Entry) []objstore.Entry {
			if len(entries) > 0 && late.Add(1)%2 == 1 {
				return entries[:len(entries)-1]
			}
			return entries
		})
	}},
	{"a listing goes on after its error", "ListCanBeLeft", func(s objstore.Store) objstore.Store {
		return broken{Store: s, list: func(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
			return func(yield func(objstore.Entry, error) bool) {
				for e, err := range s.List(ctx, o) {
					if !yield(e, err) || err != nil && !yield(objstore.Entry{}, err) {
						return
					}
				}
			}
		}}
	}},
	{"leading slashes are dropped", "BadPrefixesFindNothing", func(s objstore.Store) objstore.Store {
		return relist(s, func(o *objstore.ListOptions) { o.Prefix = strings.TrimPrefix(o.Prefix, "/") }, asIs)
	}},
	{"looks, then writes", "RacingPutsHaveOneWinner", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			if holds(ctx, s, key) {
				return objstore.ErrExists
			}
			runtime.Gosched()
			return s.Put(ctx, key, data)
		}}
	}},
	{"a landed put is sent again", "RacingPutsHaveOneWinner", func(s objstore.Store) objstore.Store {
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			if err := s.PutIfAbsent(ctx, key, data); err != nil {
				return err
			}
			return s.PutIfAbsent(ctx, key, data)
		}}
	}},
	{"objects are written in pieces", "ReadersNeverSeeAPart", func(s objstore.Store) objstore.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, data []byte) error {
			if err := s.Put(ctx, key, data[:len(data)/2]); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			return s.Put(ctx, key, data)
		}}
	}},
	{"the name is taken before the object is there", "LosersSeeTheWinner", func(s objstore.Store) objstore.Store {
		var names sync.Map
		return broken{Store: s, absent: func(ctx context.Context, key string, data []byte) error {
			if _, taken := names.LoadOrStore(key, true); taken {
				return objstore.ErrExists
			}
			time.Sleep(time.Millisecond)
			return s.PutIfAbsent(ctx, key, data)
		}}
	}},
	{"any ETag will do", "ReplacesOnItsETagAlone", func(s objstore.Store) objstore.Store {
		return brokenIf{s.(objstore.Conditional), func(ctx context.Context, s objstore.Conditional, key string, data []byte, c objstore.Condition) (string, error) {
			if _, ok := c.ETag(); ok && holds(ctx, s, key) {
				c = objstore.Always()
			}
			return s.PutIf(ctx, key, data, c)
		}}
	}},
	{"what is missing is made", "ReplacesOnItsETagAlone", func(s objstore.Store) objstore.Store {
		return brokenIf{s.(objstore.Conditional), func(ctx context.Context, s objstore.Conditional, key string, data []byte, c objstore.Condition) (string, error) {
			if _, ok := c.ETag(); ok && !holds(ctx, s, key) {
				c = objstore.IfAbsent()
			}
			return s.PutIf(ctx, key, data, c)
		}}
	}},
	{"a put answers the ETag of before", "ReplacingAnswersTheNewETag", func(s objstore.Store) objstore.Store {
		return brokenIf{s.(objstore.Conditional), func(ctx context.Context, s objstore.Conditional, key string, data []byte, c objstore.Condition) (string, error) {
			before, _ := s.Stat(ctx, key)
			etag, err := s.PutIf(ctx, key, data, c)
			if before.ETag != "" {
				etag = before.ETag
			}
			return etag, err
		}}
	}},
	{"compares, then replaces", "RacingReplacementsLoseNothing", func(s objstore.Store) objstore.Store {
		return brokenIf{s.(objstore.Conditional), func(ctx context.Context, s objstore.Conditional, key string, data []byte, c objstore.Condition) (string, error) {
			if held, err := s.Stat(ctx, key); err != nil || c != objstore.IfETag(held.ETag) {
				return "", c.Refusal()
			}
			runtime.Gosched()
			return s.PutIf(ctx, key, data, objstore.Always())
		}}
	}},
}

// brokenIf is a good store whose conditional put has a defect.
type brokenIf struct {
	objstore.Conditional
	putIf func(ctx context.Context, s objstore.Conditional, key string, data []byte, c objstore.Condition) (string, error)
}

func (b brokenIf) PutIf(ctx context.Context, key string, data []byte, c objstore.Condition) (string, error) {
	return b.putIf(ctx, b.Conditional, key, data, c)
}

// config makes a suite for a memory store, which is "reopened" by sharing it.
func config(wrap func(objstore.Store) objstore.Store) objtest.Config {
	return objtest.Config{
		New:    func(objtest.T) objstore.Store { return wrap(memobj.New()) },
		Reopen: func(_ objtest.T, s objstore.Store) objstore.Store { return s },
	}
}

func TestDefectsAreFoundByTheirCase(t *testing.T) {
	for _, d := range defects {
		t.Run(d.what, func(t *testing.T) {
			t.Parallel()
			wantFound(t, d.foundBy, config(d.store))
		})
	}
}

// wantFound gives a race that a case has to lose a few tries.
func wantFound(t *testing.T, foundBy string, c objtest.Config) {
	t.Helper()
	i := slices.IndexFunc(objtest.Cases(), func(kase objtest.Case) bool { return kase.Name == foundBy })
	if i < 0 {
		t.Fatalf("there is no case %s", foundBy)
	}
	for range 5 {
		if found := try(t, objtest.Cases()[i], c); len(found) > 0 {
			t.Logf("%s: %s", foundBy, found[0])
			return
		}
	}
	t.Errorf("%s finds nothing", foundBy)
}

func TestLossOnReopenIsFound(t *testing.T) {
	c := config(func(s objstore.Store) objstore.Store { return s })
	c.Reopen = func(t objtest.T, s objstore.Store) objstore.Store {
		again := memobj.New()
		for e := range s.List(t.Context(), objstore.ListOptions{}) {
			data, _, _ := s.Get(t.Context(), e.Key, objstore.Range{})
			if !strings.HasSuffix(e.Key, "7") {
				_ = again.Put(t.Context(), e.Key, data)
			}
		}
		return again
	}
	wantFound(t, "AcknowledgedOutlivesReopen", c)
}

// A suite that finds fault with everything would pass the tests above.
func TestAGoodStoreHasNoDefects(t *testing.T) {
	for _, kase := range objtest.Cases() {
		for _, failure := range try(t, kase, config(func(s objstore.Store) objstore.Store { return s })) {
			t.Errorf("%s: %s", kase.Name, failure)
		}
	}
}

// Cases rot when nothing shows that they can fail.
func TestEveryCaseHasItsDefect(t *testing.T) {
	shown := map[string]bool{"AcknowledgedOutlivesReopen": true}
	for _, d := range defects {
		shown[d.foundBy] = true
	}
	for _, kase := range objtest.Cases() {
		if !shown[kase.Name] {
			t.Errorf("no broken store is found by %s", kase.Name)
		}
	}
}
