package access

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/internal/nearest"
)

var notFound = regexp.MustCompile(`^line (\d+): field (.*) not found in type access\.(\w+)$`)

// inWords is an error of the YAML package without Go's types: of a name that nobody knows it
// guesses which one was meant.
func inWords(err error) error {
	bad, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	all := make([]error, len(bad.Errors))
	for i, text := range bad.Errors {
		all[i] = errors.New(text)
		if m := notFound.FindStringSubmatch(text); m != nil {
			known := namesOf(m[3])
			all[i] = fmt.Errorf("line %s: there is no %q; there are %s%s", m[1], m[2], strings.Join(known, ", "), nearest.Meant(m[2], known))
		}
	}
	return errors.Join(all...)
}

// namesOf are the names that a part of the file may have, by its type's name.
func namesOf(part string) (names []string) {
	for _, v := range []any{file{}, Token{}, Issuer{}, Grant{}, Binding{}, Quota{}} {
		t := reflect.TypeOf(v)
		if t.Name() != part {
			continue
		}
		for i := range t.NumField() {
			if name := t.Field(i).Tag.Get("yaml"); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// roleMeant guesses which role was meant.
func roleMeant(name string, roles map[string][]Grant) string {
	var known []string
	for r := range roles {
		known = append(known, r)
	}
	slices.Sort(known)
	return nearest.Meant(name, known)
}

// actionMeant guesses which action was meant.
func actionMeant(a Action) string {
	known := make([]string, len(actions))
	for i := range actions {
		known[i] = string(actions[i])
	}
	return nearest.Meant(string(a), known)
}
