package tables

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// The table properties that touch the protocol (R10, R20, R21).
const (
	PropLogRetention  = "delta.logRetentionDuration"
	propTxnRetention  = "delta.setTransactionRetentionDuration"
	PropFileRetention = "delta.deletedFileRetentionDuration"
	propIsolation     = "delta.isolationLevel"
)

const (
	// minLogRetention keeps a sleeping publisher's put from landing in a log that
	// was cleaned behind it (R10).
	minLogRetention = 24 * time.Hour
	// defaultFileRetention is Delta's.
	defaultFileRetention = 7 * 24 * time.Hour
)

// CheckSettings refuses a table by its properties (R21). It is asked at
// registration, and again whenever the metadata changed: a table with such a
// setting takes no new commits until it is gone. *InputError with the remedy.
func CheckSettings(p *Profile) error { return checkSettings(p.MetaData.Configuration) }

func checkSettings(config map[string]string) error {
	if v, ok := config[PropLogRetention]; ok {
		d, err := ParseInterval(v)
		if err != nil {
			return &InputError{Field: PropLogRetention, Value: cut(v), Reason: err.Error(), Remedy: "set it to interval 30 days, say"}
		}
		if d < minLogRetention {
			return &InputError{
				Field: PropLogRetention, Value: cut(v),
				Reason: "is shorter than a day: log clean-up could overtake a delayed publisher",
				Remedy: "ALTER TABLE … SET TBLPROPERTIES ('" + PropLogRetention + "' = 'interval 30 days')",
			}
		}
	}
	if v, ok := config[propTxnRetention]; ok {
		return &InputError{
			Field: propTxnRetention, Value: cut(v),
			Reason: "makes Spark's checkpoints drop the marker that says what was delivered",
			Remedy: "ALTER TABLE … UNSET TBLPROPERTIES ('" + propTxnRetention + "')",
		}
	}
	return nil
}

// CheckRegister refuses a table that may not join a catalog (R21), by its features
// and settings. The warnings are for the operator. life is the longest time that a
// transaction may stay open (R20); fencedHere, that a fence in the protocol is this
// catalog's own.
func CheckRegister(s *State, life time.Duration, fencedHere bool) (warnings []string, err error) {
	warnings, err = CheckProfile(s.Profile(), life)
	if err == nil && s.Profile().Fenced() && !fencedHere {
		warnings = append(warnings, "the table's protocol has the feature "+FenceFeature+
			", from another catalog or an earlier time in this one, so nobody else writes it; fence it here, or unfence it to let others write")
	}
	return warnings, err
}

// CheckProfile is CheckRegister by the table's profile alone, which does not tell whose a fence is.
func CheckProfile(p *Profile, life time.Duration) (warnings []string, err error) {
	if err := p.CheckWritable(); err != nil {
		return nil, err
	}
	if err := CheckSettings(p); err != nil {
		return nil, err
	}
	return Warnings(p, life), nil
}

// Warnings are those that CheckProfile gives by the table's properties, also where it
// refuses the table.
func Warnings(p *Profile, life time.Duration) []string {
	return settingWarnings(p.MetaData.Configuration, life)
}

func settingWarnings(config map[string]string, life time.Duration) []string {
	var out []string
	keep := defaultFileRetention
	if d, err := ParseInterval(config[PropFileRetention]); err == nil {
		keep = d
	}
	if keep < life {
		out = append(out, fmt.Sprintf("%s is %s, shorter than the longest transaction (%s): VACUUM may delete files that are staged", PropFileRetention, keep, life))
	}
	for _, i := range ignoredIn(config) {
		out = append(out, i.String())
	}
	return out
}

var units = map[string]time.Duration{
	"week": 7 * 24 * time.Hour, "day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute,
	"second": time.Second, "millisecond": time.Millisecond, "microsecond": time.Microsecond,
}

// ParseInterval reads Delta's intervals, "interval 30 days" or "interval 1 week 12
// hours". Months and years have no fixed length, and Delta refuses them too.
func ParseInterval(text string) (time.Duration, error) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) > 0 && words[0] == "interval" {
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return 0, fmt.Errorf("is not an interval such as %q", "interval 7 days")
	}
	var total time.Duration
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		unit, ok := units[strings.TrimSuffix(words[i+1], "s")]
		if err != nil || !ok || n < 0 || n > int64(1<<62/unit) {
			return 0, fmt.Errorf("is not an interval such as %q: %s %s", "interval 7 days", words[i], words[i+1])
		}
		total += time.Duration(n) * unit
	}
	if total < 0 {
		return 0, fmt.Errorf("is too long")
	}
	return total, nil
}

// Isolation of a participant (CONTRACT.md section 2).
type Isolation uint8

// The isolation levels.
const (
	// IsolationDefault is the table's property, else Serializable.
	IsolationDefault Isolation = iota
	// Serializable: every file that is added to what was read is a conflict.
	Serializable
	// WriteSerializable: those of blind appends are none.
	WriteSerializable
)

var isolationNames = [...]string{"", "serializable", "write-serializable"}

func (i Isolation) String() string {
	if int(i) < len(isolationNames) {
		return isolationNames[i]
	}
	return fmt.Sprintf("isolation(%d)", uint8(i))
}

func parseIsolation(property string) (Isolation, error) {
	switch {
	case property == "" || strings.EqualFold(property, "Serializable"):
		return Serializable, nil
	case strings.EqualFold(property, "WriteSerializable"):
		return WriteSerializable, nil
	}
	return Serializable, &InputError{Field: propIsolation, Value: cut(property), Reason: "is not known", Rule: twophase.RuleNone}
}

// isolation is the table's own.
func (p *Profile) isolation() Isolation {
	level, err := parseIsolation(p.Property(propIsolation))
	if err != nil {
		return Serializable
	}
	return level
}
