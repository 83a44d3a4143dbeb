package tables

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Ignored is a table property that cannot be read, so that its default is used, here
// and by the engines that can go on.
type Ignored struct{ Property, Value, Reason, Remedy string }

func (i Ignored) String() string {
	return fmt.Sprintf("%s is %q, which %s", i.Property, i.Value, i.Reason)
}

// settingRules say how properties of maintenance and isolation read. New values that
// break one are refused; a table that has one already is warned of.
var settingRules = []struct {
	property, reason, remedy string
	reads                    func(value string) bool
}{
	{propCheckpointInterval, fmt.Sprintf("is not a whole number above 0; %d is used", DefaultCheckpointInterval), "set it to a number of versions, such as 10", isPositive},
	{propCheckpointPolicy, "is neither classic nor v2; classic is used", "set it to classic or v2", oneOf("classic", "v2")},
	{propLogCleanUp, "is neither true nor false; true is used", "set it to true or false", oneOf("true", "false")},
	{PropFileRetention, fmt.Sprintf("cannot be read; %s is used", defaultFileRetention), "set it to an interval, such as interval 7 days", isInterval},
	{propIsolation, "is not known here; Serializable is used", "set it to Serializable or WriteSerializable", isIsolation},
}

func isPositive(v string) bool {
	n, err := strconv.ParseInt(v, 10, 32) // an int in Spark
	return err == nil && n > 0
}

func oneOf(words ...string) func(string) bool {
	return func(v string) bool {
		for _, w := range words {
			if strings.EqualFold(v, w) {
				return true
			}
		}
		return false
	}
}

func isInterval(v string) bool {
	_, err := ParseInterval(v)
	return err == nil
}

func isIsolation(v string) bool {
	_, err := parseIsolation(v)
	return err == nil
}

// Ignored are the properties that cannot be read.
func (p *Profile) Ignored() []Ignored { return ignoredIn(p.MetaData.Configuration) }

func ignoredIn(config map[string]string) (out []Ignored) {
	for _, r := range settingRules {
		if v, ok := config[r.property]; ok && !r.reads(v) {
			out = append(out, Ignored{r.property, cut(v), r.reason, r.remedy})
		}
	}
	return out
}

// refuseNewlyIgnored: a value that cannot be read may stay where it is, and may not be
// set, as in Delta.
func refuseNewlyIgnored(was, is map[string]string) error {
	for _, i := range ignoredIn(is) {
		if old, ok := was[i.Property]; !ok || old != is[i.Property] {
			reason, _, _ := strings.Cut(i.Reason, ";")
			return &InputError{Field: i.Property, Value: i.Value, Reason: reason, Remedy: i.Remedy, Rule: twophase.RuleSchema}
		}
	}
	return nil
}
