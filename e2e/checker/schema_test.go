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
		{"format", `"format":1`, `"format":2`, "/format"},
		{"missing", `"incarnation"`, `"other"`, "incarnation is missing"},
		{"kind", `"publication"`, `"other"`, "/kind"},
		{"integer", `"snapshot":5`, `"snapshot":5.5`, "/snapshot"},
		{"minimum", `"snapshot":5`, `"snapshot":0`, "/snapshot"},
		{"pattern", id("C"), "short", "/transactions/1"},
		{"unique", id("C"), id("B"), "/transactions/1"},
		{"nested", `"version":2`, `"version":"2"`, "/tables/1/version"},
		{"length", `"name":"items"`, `"name":""`, "/tables/1/name"},
		{"null", `"kind":"publication"`, `"kind":null`, "/kind"},
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
