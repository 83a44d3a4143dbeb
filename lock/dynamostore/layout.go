package dynamostore

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/lock"
)

// The attributes of an item.
const (
	partitionKey = "pk"
	sortKey      = "sk"
	valueAttr    = "v"
	versionAttr  = "r"
)

// partition is a part of the table: its key without the prefix, and what all of its
// keys begin with. The names of no two partitions end alike, so that no prefix makes
// one catalog's partition another's.
type partition struct {
	name, root string
}

// How far keys are spread. Part of the format.
const (
	ringRoot, ringParts = "ring/", 8
	openRoot, openParts = "open/", 16
	payRoot, payParts   = "pay/", 64
)

var rest = partition{name: "rest"}

// partitions are all of them.
var partitions = func() []partition {
	all := []partition{rest}
	for i := range ringParts {
		all = append(all, partition{fmt.Sprintf("%s%02d", ringRoot, i), ringRoot})
	}
	for i := range openParts {
		all = append(all, partition{fmt.Sprintf("%s%02d", openRoot, i), openRoot})
	}
	for i := range payParts {
		shard := fmt.Sprintf("%s%02d", payRoot, i)
		all = append(all, partition{shard, shard + "/"})
	}
	return all
}()

// partitionOf says where a key belongs.
func partitionOf(key string) string {
	switch {
	case strings.HasPrefix(key, ringRoot):
		return spread(ringRoot, ringParts, key)
	case strings.HasPrefix(key, openRoot):
		return spread(openRoot, openParts, key)
	case strings.HasPrefix(key, payRoot):
		if shard := key[:min(len(key), len(payRoot)+2)]; isShard(shard) && strings.HasPrefix(key[len(shard):], "/") {
			return shard
		}
	}
	return rest.name
}

func isShard(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, payRoot+"%02d", &n)
	return err == nil && n >= 0 && n < payParts && name == fmt.Sprintf("%s%02d", payRoot, n)
}

func spread(root string, parts uint32, key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails (hash.Hash)
	return fmt.Sprintf("%s%02d", root, h.Sum32()%parts)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// place is the primary key of an item.
func (s *Store) place(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{partitionKey: text(s.cfg.Prefix + partitionOf(key)), sortKey: text(key)}
}

// decode reads an item, and refuses what this package has not written.
func decode(attrs map[string]types.AttributeValue) (lock.Item, error) {
	key, ok1 := attrs[sortKey].(*types.AttributeValueMemberS)
	value, ok2 := attrs[valueAttr].(*types.AttributeValueMemberB)
	version, ok3 := attrs[versionAttr].(*types.AttributeValueMemberS)
	if !ok1 || !ok2 || !ok3 {
		return lock.Item{}, fmt.Errorf("an item is not txcoord's: it lacks %s, %s or %s; give txcoord a table of its own", sortKey, valueAttr, versionAttr)
	}
	return lock.Item{Key: key.Value, Value: value.Value, Revision: lock.Revision(version.Value)}, nil
}
