package rpc

import (
	"errors"
	"fmt"
	"time"
)

// Limits bound what one request, and all requests together, may take. A zero field
// has the default.
type Limits struct {
	// MessageBytes bounds one request message (16 MiB); what is larger goes through
	// StageStream. A request up to four times as large is answered with the limit's
	// name, above that by gRPC itself.
	MessageBytes int
	// ChunkBytes bounds one chunk of StageStream (1 MiB).
	ChunkBytes int
	// PartBytes bounds the bytes of one StageStream (1 GiB).
	PartBytes int
	// Actions bounds the lines of one StageStream (1,000,000).
	Actions int
	// StreamBytes bounds what all streams hold in memory together (1 GiB), but for one
	// whose chunks are put together, which holds them twice meanwhile.
	StreamBytes int
	// Calls bounds the calls that one connection has open (10,000).
	Calls uint32
	// IdlePing is after how long without traffic a connection is asked whether it
	// still lives (30 s); it is closed when nothing comes back for 10 s.
	IdlePing time.Duration
}

// hardFactor is how much of a message that is too large is read to be able to name
// the limit.
const hardFactor = 4

func (l Limits) withDefaults() Limits {
	l.MessageBytes = or(l.MessageBytes, 16<<20)
	l.ChunkBytes = or(l.ChunkBytes, 1<<20)
	l.PartBytes = or(l.PartBytes, 1<<30)
	l.Actions = or(l.Actions, 1_000_000)
	l.StreamBytes = or(l.StreamBytes, 1<<30)
	l.Calls = or(l.Calls, 10_000)
	l.IdlePing = or(l.IdlePing, 30*time.Second)
	return l
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Validate names the first limit that makes no sense.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"message_bytes", l.MessageBytes},
		{"chunk_bytes", l.ChunkBytes},
		{"part_bytes", l.PartBytes},
		{"stream_bytes", l.StreamBytes},
	} {
		if f.value < 0 {
			return fmt.Errorf("limit %s is %d: give a number of bytes above 0", f.name, f.value)
		}
	}
	if d := l.withDefaults(); d.ChunkBytes > d.MessageBytes {
		return fmt.Errorf("limit chunk_bytes is %d: it cannot be above message_bytes (%d)", d.ChunkBytes, d.MessageBytes)
	}
	if l.IdlePing < 0 {
		return errors.New("limit idle_ping is negative")
	}
	return nil
}
