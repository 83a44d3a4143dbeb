package objtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

func replacingCases() []Case {
	needs := []Capability{Replacing}
	return []Case{
		{Name: "ReplacesOnItsETagAlone", Needs: needs, Run: replacesOnItsETagAlone},
		{Name: "ReplacingAnswersTheNewETag", Needs: needs, Run: replacingAnswersTheNewETag},
		{Name: "RacingReplacementsLoseNothing", Needs: needs, Run: racingReplacementsLoseNothing},
	}
}

// conditional is the store as one that replaces.
func conditional(t T, s objstore.Store) objstore.Conditional {
	t.Helper()
	c, ok := s.(objstore.Conditional)
	if !ok {
		t.Fatalf("%T is no objstore.Conditional; say why in Without", s)
	}
	return c
}

func replacesOnItsETagAlone(t T, c Config) {
	s := conditional(t, c.New(t))
	other := conditional(t, c.second(t, s))
	_, err := s.PutIf(t.Context(), "k", []byte("x"), objstore.IfETag("0123456789abcdef0123456789abcdef"))
	wantErr(t, "replace what is not there", err, objstore.ErrChanged)
	first, err := s.PutIf(t.Context(), "k", []byte("first"), objstore.IfAbsent())
	must(t, err)
	_, err = other.PutIf(t.Context(), "k", []byte("x"), objstore.IfAbsent())
	wantErr(t, "put if absent", err, objstore.ErrExists)
	second, err := other.PutIf(t.Context(), "k", []byte("second"), objstore.IfETag(first))
	must(t, err)
	_, err = s.PutIf(t.Context(), "k", []byte("x"), objstore.IfETag(first))
	wantErr(t, "replace on an older ETag", err, objstore.ErrChanged)
	wantObject(t, s, "k", []byte("second"))
	_, err = s.PutIf(t.Context(), "k", []byte("third"), objstore.Always())
	must(t, err)
	_, err = s.PutIf(t.Context(), "k", []byte("x"), objstore.IfETag(second))
	wantErr(t, "replace after a put", err, objstore.ErrChanged)
	wantObject(t, other, "k", []byte("third"))
	must(t, s.Delete(t.Context(), "k"))
	_, err = s.PutIf(t.Context(), "k", []byte("x"), objstore.IfETag(second))
	wantErr(t, "replace what was deleted", err, objstore.ErrChanged)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.PutIf(ctx, "k", nil, objstore.IfAbsent())
	wantErr(t, "put with a context that has ended", err, context.Canceled)
	wantListed(t, s, objstore.ListOptions{}, nil)
}

func replacingAnswersTheNewETag(t T, c Config) {
	s := conditional(t, c.New(t))
	condition := objstore.IfAbsent()
	for i := range 20 {
		data := []byte(strconv.Itoa(i))
		etag, err := s.PutIf(t.Context(), "k", data, condition)
		must(t, err)
		got, info, err := s.Get(t.Context(), "k", objstore.Range{})
		must(t, err)
		stat, err := s.Stat(t.Context(), "k")
		must(t, err)
		if etag == "" || info.ETag != etag || stat.ETag != etag || string(got) != string(data) {
			t.Fatalf("put answers ETag %q, get %q with %q, stat %q", etag, info.ETag, got, stat.ETag)
		}
		condition = objstore.IfETag(etag)
		if i%3 == 2 {
			condition = objstore.Always()
		}
	}
}

// racingReplacementsLoseNothing counts. A counter's value names its writer, since
// ETags may be those of the bytes.
func racingReplacementsLoseNothing(t T, c Config) {
	s := c.New(t)
	must(t, s.Put(t.Context(), "counter", []byte("0 nobody")))
	handles := []objstore.Conditional{conditional(t, s), conditional(t, c.second(t, s))}
	const writers, increments = 8, 10
	race(writers, func(i int) {
		for n := range increments {
			reportErr(t, increment(t.Context(), handles[i%2], fmt.Sprintf("%d.%d", i, n)))
		}
	})
	got, _, err := s.Get(t.Context(), "counter", objstore.Range{})
	must(t, err)
	if n, _, _ := strings.Cut(string(got), " "); n != strconv.Itoa(writers*increments) {
		t.Errorf("the counter stands at %s after %d increments", n, writers*increments)
	}
}

// increment tries until it is not refused.
func increment(ctx context.Context, s objstore.Conditional, name string) error {
	for {
		got, info, err := s.Get(ctx, "counter", objstore.Range{})
		if err != nil {
			return err
		}
		text, _, _ := strings.Cut(string(got), " ")
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("the counter holds %q", got)
		}
		_, err = s.PutIf(ctx, "counter", fmt.Appendf(nil, "%d %s", n+1, name), objstore.IfETag(info.ETag))
		if !errors.Is(err, objstore.ErrChanged) {
			return err
		}
	}
}
