package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/txcoord/txcoord/coordinator/rpc"
)

type configCheckCommand struct {
	File string `arg:"" help:"The configuration file."`
}

func (c *configCheckCommand) Run(_ context.Context, s *session) error {
	if err := mistakesIn(s, c.File); err != nil {
		return err
	}
	return s.tell(c.File+" is in order", object{{"file", c.File}, {"inOrder", true}})
}

// mistakesIn is all that is wrong with what `serve --config FILE` would have, or serve with its
// variables where no file is named: the file's
// form, values that are none, what does not fit together, and files that cannot be used. Serve
// itself ends at the first of these that it finds something of, as nothing is known of what
// follows; here it is looked at what is left without it.
func mistakesIn(s *session, path string) error {
	flags, err := flagsOfServers(s)
	if err != nil {
		return err
	}
	var file configFile
	var wrong error
	if path != "" {
		file, wrong = readConfig(path, flags)
	}
	_, named := file.values["warehouse"]
	_, set := s.env("TXCOORD_WAREHOUSE")
	unknown := !set && file.values["warehouse"] == nil && (named || file.values == nil && wrong != nil)
	values := &usable{file: file.values, env: s.env, hidden: map[string]bool{}}
	wrong = allOf(wrong, values.judge(flags))
	if unknown { // and not missing
		values.env = also(values.env, "TXCOORD_WAREHOUSE", os.TempDir())
	}
	config, err := values.config(s)
	if config != nil {
		err = allOf(err, config.checkFiles(s))
	}
	return once(originsOf(file, flags, s.env).name(allOf(wrong, err)))
}

// flagsOfServers are those that a configuration may set.
func flagsOfServers(s *session) (fileFlags, error) {
	bare := *s
	bare.env = nothingSet
	var grammar commands
	parser, err := newParser(&grammar, &bare)
	if err != nil {
		return nil, err
	}
	return flagsOfFile(parser.Model), nil
}

// usable is what a file and the environment say, without values that are none.
type usable struct {
	file   map[string]any
	env    lookup
	hidden map[string]bool // variables
}

// judge takes out what flags cannot have, and says what it was. A value of the file that a
// variable counts before is not looked at.
func (u *usable) judge(flags fileFlags) error {
	var all []error
	for _, name := range sortedKeys(flags) {
		flag := flags[name]
		variable, v, err := variableOf(flag, u.env)
		if v != "" {
			err = takes(flag, v)
		}
		if err != nil {
			u.hidden[variable] = true
			all = append(all, err)
		}
		if v != "" || err != nil {
			continue
		}
		if v := u.file[name]; v != nil {
			if err := takes(flag, v); err != nil {
				u.file[name] = nil
				all = append(all, err)
			}
		}
	}
	return allOf(all...)
}

// takes reports whether a flag can have a value, in the parser's words.
func takes(flag *kong.Flag, value any) error {
	target := reflect.New(flag.Target.Type()).Elem()
	err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), target)
	if err == nil && flag.Enum != "" && !slices.Contains(flag.EnumSlice(), fmt.Sprint(target)) {
		err = fmt.Errorf("--%s must be one of %s but got %q", flag.Name, flag.Enum, fmt.Sprint(target))
	}
	if err == nil {
		return nil
	}
	var ours *usageError
	if errors.As(err, &ours) {
		return ours
	}
	return parserSays(err.Error(), "txcoord serve --help")
}

// config is what serve would have of what is usable; nil if that is not known, and what is
// wrong with it.
func (u *usable) config(s *session) (*Config, error) {
	bare := *s
	bare.env = func(name string) (string, bool) {
		if name == "TXCOORD_CONFIG" || u.hidden[name] {
			return "", false
		}
		return u.env(name)
	}
	args := []string{"serve"}
	if s.Catalog != rpc.DefaultCatalog {
		args = append(args, "--catalog", s.Catalog)
	}
	var grammar commands
	parser, err := newParser(&grammar, &bare, kong.Resolvers(fromFile(u.file, bare.env)))
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(args); err != nil {
		return &grammar.Serve.Config, usageOf(err)
	}
	return &grammar.Serve.Config, nil
}

// also is an environment in which one variable is set.
func also(env lookup, name, value string) lookup {
	return func(asked string) (string, bool) {
		if asked == name {
			return value, true
		}
		return env(asked)
	}
}

// once leaves out what is said already: a bucket of a store is looked at twice.
func once(err error) error {
	var all mistakes
	if !errors.As(err, &all) {
		return err
	}
	said := map[string]bool{}
	return allOf(slices.DeleteFunc(slices.Clone(all), func(e error) bool {
		was := said[e.Error()]
		said[e.Error()] = true
		return was
	})...)
}

// checkFiles opens the files that the configuration names, as serve would, but for
// those that it writes, and says all that is wrong.
func (c *Config) checkFiles(s *session) error {
	guarded := c.Security
	guarded.AuditLog = ""
	access := guarded
	access.TLSCert = ""
	_, accessErr := access.open(slog.New(slog.DiscardHandler))
	guarded.Access = ""
	var tlsFiles []error
	if c.TLSCert != "" { // or the others are for nothing, which was said
		tlsFiles = readable([][2]string{{"--tls-cert", c.TLSCert}, {"--tls-key", c.TLSKey}, {"--tls-client-ca", c.TLSClientCA}})
	}
	if c.Security.validate() != nil || len(tlsFiles) > 0 { // they cannot be tried together
		guarded.TLSCert = ""
	}
	_, tlsErr := guarded.open(slog.New(slog.DiscardHandler))
	_, clientErr := s.tls()
	all := append([]error{accessErr, tlsErr, clientErr}, tlsFiles...)
	return allOf(append(all, readable([][2]string{
		{"--etcd-ca", c.EtcdCA}, {"--etcd-cert", c.EtcdCert}, {"--etcd-key", c.EtcdKey}, {"--etcd-password-file", c.EtcdPasswordFile},
	})...)...)
}

// readable says which of the files that flags name cannot be read.
func readable(files [][2]string) (wrong []error) {
	for _, f := range files {
		if f[1] == "" {
			continue
		}
		if _, err := os.ReadFile(f[1]); err != nil {
			wrong = append(wrong, usage(f[0], f[1], err.Error()))
		}
	}
	return wrong
}
