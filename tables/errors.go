package tables

import (
	"errors"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// InputError says what is wrong with something that a client handed in: action
// lines, a read declaration, a URI, a table property. Nothing was written.
type InputError struct {
	// Line counts from 1; 0 where the input has no lines. Piece counts the staged
	// pieces of a part from 0.
	Line  int
	Piece int
	// Field is a path such as add.partitionValues; Value is what stood there, cut short.
	Field  string
	Value  string
	Reason string
	// Remedy is what the client can do; empty where the reason says it.
	Remedy string
	// Rule is set where the input is well formed and the table refuses it.
	Rule twophase.Rule

	syntax bool // the line is no JSON at all
}

func (e *InputError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Reason)
	if e.Value != "" {
		fmt.Fprintf(&b, " (%s)", e.Value)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// LimitError says which limit a request is past.
type LimitError struct {
	Limit string
	Value int64
	Max   int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is %d, the limit is %d", e.Limit, e.Value, e.Max)
}

// FeatureError names a table feature that keeps us from reading or writing a table.
type FeatureError struct {
	Table   string
	Feature string
	// Write: the table can be read, and not be written.
	Write bool
	// Added: an action would bring the feature in; the table is as it was.
	Added  bool
	Reason string
}

func (e *FeatureError) Error() string {
	if e.Added {
		return fmt.Sprintf("the protocol action is refused, and table %s stays as it is: %s", e.Table, e.cause())
	}
	verb := "read"
	if e.Write {
		verb = "written"
	}
	return fmt.Sprintf("table %s cannot be %s: %s", e.Table, verb, e.cause())
}

func (e *FeatureError) cause() string { return fmt.Sprintf("feature %s: %s", e.Feature, e.Reason) }

// Fault is the closed list of what can be wrong with a log.
type Fault uint8

// The faults of a log.
const (
	// NotATable: there is no _delta_log with a commit or checkpoint in it.
	NotATable Fault = iota + 1
	// NoVersion: the version asked for is not in the log: newer than the newest,
	// or cleaned.
	NoVersion
	// Gap: a version between two that exist is missing.
	Gap
	// Empty: a commit file without an action.
	Empty
	// Torn: a commit file whose last line breaks off.
	Torn
	// Malformed: a line that is not a Delta action, or an action that one commit
	// may not hold.
	Malformed
	// NoProtocol: no protocol action up to the version.
	NoProtocol
	// NoMetaData: no metaData action up to the version.
	NoMetaData
	// Unsupported: a protocol version or reader feature that we do not know.
	Unsupported
	// BadCheckpoint: a checkpoint that cannot be read, or is not whole.
	BadCheckpoint
	// BadTags: a version that names a catalog of txcoord and whose tags make no sense.
	BadTags
	// Altered: a commit file has other content than was recorded of its version.
	Altered
)

var faultNames = [...]string{
	"none", "not a Delta table", "no such version", "gap in the log", "empty commit", "torn commit",
	"malformed commit", "no protocol", "no metaData", "unsupported protocol", "bad checkpoint", "bad tags", "altered commit",
}

func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// LogError says what is wrong with a table's log, and in which file. It is never
// used for an answer of the object store: those keep objstore's errors.
type LogError struct {
	Fault Fault
	// Table is the table's URI, File the name below it, Line from 1 where it applies.
	Table   string
	File    string
	Line    int
	Version twophase.Version
	Reason  string
	// Bytes is the size of a commit file that is Empty, Torn or Malformed; NotJSON says that
	// the line of a Malformed one is no JSON at all.
	Bytes   int
	NotJSON bool
	// Err is the cause, a FeatureError among others.
	Err error
}

func (e *LogError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s", e.Table)
	if e.File != "" {
		b.WriteString(": " + e.File)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	b.WriteString(": " + e.Fault.String())
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if feature, ok := errors.AsType[*FeatureError](e.Err); ok {
		b.WriteString(": " + feature.cause())
	} else if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// InPart reports whether the fault is a commit file that is there, and no whole commit.
func (e *LogError) InPart() bool {
	return e.Fault == Empty || e.Fault == Torn || e.Fault == Malformed
}

// Ailment is what such a file has, to be said after its name.
func (e *LogError) Ailment() string {
	switch {
	case e.Fault == Empty && e.Bytes == 0:
		return "is empty"
	case e.Fault == Empty:
		return fmt.Sprintf("has no action in its %d bytes", e.Bytes)
	case e.Fault == Torn:
		return fmt.Sprintf("is cut off at byte %d, in line %d", e.Bytes, e.Line)
	case e.NotJSON:
		return fmt.Sprintf("is not JSON in line %d (%s)", e.Line, e.Reason)
	default:
		return fmt.Sprintf("holds no Delta action in line %d (%s)", e.Line, e.Reason)
	}
}

// Unwrap returns the cause.
func (e *LogError) Unwrap() error { return e.Err }

// cut shortens a value that goes into an error.
func cut[T ~string | ~[]byte](v T) string {
	const limit = 120
	if len(v) <= limit {
		return strings.ToValidUTF8(string(v), "�")
	}
	return strings.ToValidUTF8(string(v[:limit]), "") + "…"
}
