package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// origins say where values of serve stand that are not on the command line, in words that stand
// in an error for the flag. What checks a value knows only that.
type origins map[keyInFile]string

// originsOf are those of some flags. A variable counts before the file.
func originsOf(file configFile, flags fileFlags, env lookup) origins {
	out := origins{}
	for key, line := range file.lines {
		if flags[key.flag] == nil {
			continue
		}
		out[key] = fmt.Sprintf("%s, line %d: %s", file.path, line, key.flag)
		if flags[key.flag].IsMap() && key.below != "" {
			out[key] += ": " + key.below
		}
	}
	for name, flag := range flags {
		if variable, v, _ := variableOf(flag, env); v != "" {
			out[keyInFile{name, ""}] = variable + ": --" + name
		}
	}
	return out
}

// name names the origins in an error about values of serve.
func (o origins) name(err error) error {
	switch e := err.(type) { //nolint:errorlint // what is wrapped stays: around it are other words, a hint or an exit code
	case *usageError:
		return o.ofUsage(*e)
	case interface{ Unwrap() []error }:
		if all := e.Unwrap(); errors.Join(all...).Error() == err.Error() {
			return allOf(o.each(all)...)
		}
	}
	return err
}

func (o origins) each(all []error) []error {
	out := make([]error, len(all))
	for i, err := range all {
		out[i] = o.name(err)
	}
	return out
}

// flagInError is a flag as checks name it, or the parser: with a value of it behind that.
var flagInError = regexp.MustCompile(`--([a-z][a-z-]*)(=[^ :]*)?`)

func (o origins) ofUsage(e usageError) error {
	if flag, limit, _ := strings.Cut(e.what, " "); flag == "--limit" {
		if at, ok := o[keyInFile{"limit", cmp.Or(limit, e.value)}]; ok {
			if limit == "" {
				e.value = ""
			}
			return &usageError{at, e.value, e.remedy}
		}
	}
	e.what = flagInError.ReplaceAllStringFunc(e.what, func(text string) string {
		flag := flagInError.FindStringSubmatch(text)[1]
		return cmp.Or(o[keyInFile{flag, e.value}], o[keyInFile{flag, ""}], text)
	})
	return &e
}
