package checker_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/checker"
)

func TestManifestSchema(t *testing.T) {
	s := schema(t)
	good := goodWorld(t).files[manifestFile(5)]
	if err := s.Validate([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"format", `"format":2`, `"format":1`, "/format"},
		{"missing", `"incarnation"`, `"other"`, "incarnation is missing"},
		{"kind", `"publication"`, `"other"`, "/snapshots/0/kind"},
		{"integer", `"snapshot":5`, `"snapshot":5.5`, "/snapshots/0/snapshot"},
		{"minimum", `"snapshot":5`, `"snapshot":0`, "/snapshots/0/snapshot"},
		{"pattern", id("C"), "short", "/snapshots/0/transactions/1"},
		{"unique", id("C"), id("B"), "/snapshots/0/transactions/1"},
		{"nested", `"version":2`, `"version":"2"`, "/snapshots/0/tables/1/version"},
		{"length", `"name":"items"`, `"name":""`, "/snapshots/0/tables/1/name"},
		{"null", `"kind":"publication"`, `"kind":null`, "/snapshots/0/kind"},
		{"empty", good, `{"format":2,"catalog":"c","incarnation":"1","snapshots":[]}`, "/snapshots: 0 items"},
		{"two values", "\n", "{}", "more than one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Validate([]byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that names %q", err, c.want)
			}
		})
	}
}

func TestSchemaRefusesWhatItWouldNotCheck(t *testing.T) {
	for _, text := range []string{`{"oneOf":[]}`, `{"properties":{"a":{"maxLength":3}}}`, `{"pattern":"("}`, `{`} {
		if _, err := checker.ParseSchema([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestSchemaAdditionalProperties(t *testing.T) {
	s, err := checker.ParseSchema([]byte(`{"properties":{"a":{"type":"boolean"}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate([]byte(`{"a":true}`)); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(`{"a":true,"b":1}`)); err == nil {
		t.Error("b went through")
	}
}
