package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/lock"
)

// What Scan reads at once when it is asked for no number; and, so that large values
// do not pile up, at most about so many bytes whatever it is asked for.
const (
	pageKeys  = 1000
	pageBytes = 4 << 20
	// maxAhead bounds how many partitions are asked at once.
	maxAhead = 16
)

// Scan reads keys with the prefix that come after a key, in byte order.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	page, err := s.scan(ctx, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", prefix, err)
	}
	return page, nil
}

func (s *Store) scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if !utf8.ValidString(prefix) || !utf8.ValidString(after) {
		return nil, fmt.Errorf("prefix or key %q is not UTF-8", prefix+after)
	}
	if limit <= 0 {
		limit = pageKeys
	}
	m := merge{store: s, ahead: 1}
	for _, p := range partitions {
		if st, ok := newStream(p, prefix, after); ok {
			m.streams = append(m.streams, st)
		}
	}
	var page []lock.Item
	for size := 0; len(page) < limit && size < pageBytes; {
		item, ok, err := m.next(ctx, limit-len(page))
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		page = append(page, item)
		size += len(item.Value)
	}
	return page, nil
}

// stream is what a scan has yet to see of one partition.
type stream struct {
	partition
	// prefix of the keys that are wanted, and the key after which they are.
	prefix, after string
	// items were read and not yet taken. Without them, and not ended, the partition
	// has to be asked.
	items []lock.Item
	ended bool
}

// newStream is false for a partition that cannot hold what is wanted.
func newStream(p partition, prefix, after string) (*stream, bool) {
	if !strings.HasPrefix(p.root, prefix) && !strings.HasPrefix(prefix, p.root) {
		return nil, false
	}
	if p == rest && partitionOf(prefix) != rest.name {
		return nil, false // All keys with the prefix belong elsewhere.
	}
	st := &stream{partition: p, prefix: max(prefix, p.root), after: after}
	end, bounded := prefixEnd(st.prefix)
	return st, !bounded || after < end
}

// bound: no key of the stream that is still to come is smaller.
func (st *stream) bound() string {
	if len(st.items) > 0 {
		return st.items[0].Key
	}
	return max(st.prefix, st.after)
}

// merge takes the keys of several streams in order. It asks a partition only when
// its turn comes; the more of them turn out empty, the more at once.
type merge struct {
	store   *Store
	streams []*stream
	ahead   int
}

func (m *merge) next(ctx context.Context, want int) (lock.Item, bool, error) {
	for {
		m.streams = slices.DeleteFunc(m.streams, func(st *stream) bool { return st.ended && len(st.items) == 0 })
		if len(m.streams) == 0 {
			return lock.Item{}, false, nil
		}
		first := slices.MinFunc(m.streams, func(a, b *stream) int {
			if a.bound() == b.bound() {
				return len(a.items) - len(b.items) // Those that have to be asked come first.
			}
			return strings.Compare(a.bound(), b.bound())
		})
		if len(first.items) > 0 {
			item := first.items[0]
			first.items, first.after = first.items[1:], item.Key
			return item, true, nil
		}
		if err := m.ask(ctx, first.bound(), want); err != nil {
			return lock.Item{}, false, err
		}
	}
}

// ask reads from all partitions whose turn it is, and from some of those that come
// next.
func (m *merge) ask(ctx context.Context, bound string, want int) error {
	var due []*stream
	for _, st := range m.streams {
		if len(st.items) == 0 {
			due = append(due, st)
		}
	}
	slices.SortStableFunc(due, func(a, b *stream) int { return strings.Compare(a.bound(), b.bound()) })
	n := 0
	for n < len(due) && (due[n].bound() == bound || n < m.ahead) {
		n++
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(maxAhead)
	for _, st := range due[:n] {
		all.Go(func() error { return m.store.fill(ctx, st, want) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if !slices.ContainsFunc(due[:n], func(st *stream) bool { return len(st.items) > 0 }) {
		m.ahead = min(2*m.ahead, maxAhead)
	}
	return nil
}

// fill asks a partition once.
func (s *Store) fill(ctx context.Context, st *stream, want int) error {
	in, end := s.query(st)
	// One more: the key to come after is asked for too.
	in.Limit = aws.Int32(int32(min(want+1, pageKeys+1)))
	var out *dynamodb.QueryOutput
	err := s.table.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.table.Client.Query(ctx, in)
		return err
	})
	if err != nil {
		return s.refused(err)
	}
	st.ended = len(out.LastEvaluatedKey) == 0
	for _, attrs := range out.Items {
		item, err := decode(attrs)
		if err != nil {
			return err
		}
		if end != "" && item.Key >= end {
			st.ended = true
			break
		}
		if item.Key > st.after {
			st.items = append(st.items, item)
		}
	}
	if len(st.items) == 0 && !st.ended {
		// Only the key to come after was there; what follows is asked for next.
		st.after = max(st.after, lastKey(out.Items))
	}
	return nil
}

func lastKey(items []map[string]types.AttributeValue) string {
	if len(items) == 0 {
		return ""
	}
	key, _ := items[len(items)-1][sortKey].(*types.AttributeValueMemberS)
	return key.Value
}

// query asks for a stream's range of keys. Both of its bounds are inclusive, so it
// may yield the key to come after, and the end, which is returned: "" for none.
func (s *Store) query(st *stream) (in *dynamodb.QueryInput, end string) {
	values := map[string]types.AttributeValue{":p": text(s.cfg.Prefix + st.name)}
	cond := partitionKey + " = :p"
	from := max(st.prefix, st.after)
	end, bounded := prefixEnd(st.prefix)
	switch {
	case bounded:
		cond += " AND " + sortKey + " BETWEEN :a AND :b"
		values[":a"], values[":b"] = text(from), text(end)
	case from != "":
		cond += " AND " + sortKey + " >= :a"
		values[":a"] = text(from)
	}
	return &dynamodb.QueryInput{
		TableName: &s.cfg.Table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression: &cond, ExpressionAttributeValues: values,
	}, end
}

// prefixEnd is the smallest text after all that begin with the prefix; there is none
// for an empty prefix, or one of the last code point alone.
func prefixEnd(prefix string) (end string, ok bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if r < utf8.MaxRune {
			r++
			if !utf8.ValidRune(r) { // The surrogates.
				r = 0xE000
			}
			return prefix + string(r), true
		}
	}
	return "", false
}
