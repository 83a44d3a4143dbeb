package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/internal/nearest"
)

// BeforeResolve reads the configuration file. What is given as a flag counts first,
// then the environment, then the file, then the default.
func (c *Config) BeforeResolve(ctx *kong.Context, s *session) error {
	return takeFile(ctx, s)
}

// takeFile fills what a command has of servers' flags from a file.
func takeFile(ctx *kong.Context, s *session) error {
	var file configFile
	flags := flagsOfFile(ctx.Model)
	if path := configPath(ctx, s.env); path != "" {
		var err error
		if file, err = readConfig(path, flags); err != nil {
			return err
		}
		ctx.AddResolver(fromFile(file.values, s.env))
	}
	for _, p := range ctx.Path {
		if p.Flag != nil {
			delete(flags, p.Flag.Name)
		}
	}
	s.origins = originsOf(file, flags, s.env)
	return nil
}

// fromFile fills flags from a file that the environment says nothing of.
func fromFile(file map[string]any, env lookup) kong.Resolver {
	before := fromEnvironment(env)
	return kong.ResolverFunc(func(c *kong.Context, p *kong.Path, flag *kong.Flag) (any, error) {
		// The last resolver with a value counts, and the environment is asked before.
		if v, err := before.Resolve(c, p, flag); v != nil || err != nil {
			return v, err
		}
		return file[flag.Name], nil
	})
}

// configPath is what --config or the environment says.
func configPath(ctx *kong.Context, env lookup) string {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			path, _ := ctx.FlagValue(p.Flag).(string)
			return path
		}
	}
	if path, ok := env("TXCOORD_CONFIG"); ok {
		return path
	}
	return ""
}

// fileFlags are the flags that a configuration file may set, by name.
type fileFlags map[string]*kong.Flag

// notInFile are flags that say something about one start, not about a server.
var notInFile = []string{"config", "help", "list-limits", "warehouse-moved"}

// flagsOfFile are those of serve and of sidecar: one file is for both, and for the commands that
// open a server's store themselves, and each takes what it has.
func flagsOfFile(grammar *kong.Application) fileFlags {
	out := fileFlags{}
	out.add(grammar.Node)
	for _, server := range []string{"sidecar", "serve"} { // what both have is serve's
		for _, command := range grammar.Children {
			if command.Name == server {
				out.add(command)
			}
		}
	}
	return out
}

// serveFlags are those of the command that is parsed.
func serveFlags(ctx *kong.Context) fileFlags {
	out := fileFlags{}
	for _, p := range ctx.Path {
		if node := p.Node(); p.Flag == nil && node != nil {
			out.add(node)
		}
	}
	return out
}

// add takes the flags of a node of the grammar that a file may set.
func (f fileFlags) add(node *kong.Node) {
	for _, flag := range node.Flags {
		if !slices.Contains(notInFile, flag.Name) && !slices.Contains(notOf["serve"], flag.Name) {
			f[flag.Name] = flag
		}
	}
}

// FromFile lets a command that opens a server's store itself take what it has of serve's
// flags from that server's file.
type FromFile struct {
	ConfigFile string `name:"config" help:"The server's configuration file: what serve has, too, comes from there; flags and variables count before it ($$TXCOORD_CONFIG)." environ:"TXCOORD_CONFIG" placeholder:"FILE"`
}

// BeforeResolve reads the file.
func (*FromFile) BeforeResolve(ctx *kong.Context, s *session) error {
	return takeFile(ctx, s)
}

// configFile is what a configuration file says; what could not be read has no value.
type configFile struct {
	path string
	// folder is where relative paths are taken from, so that the file means the same wherever a
	// server is started.
	folder string
	values map[string]any
	lines  map[keyInFile]int
}

// keyInFile is a key, and below it the name of a limit, or one value of a list.
type keyInFile struct{ flag, below string }

// readConfig reads a file. Beside an error it answers what could be read.
func readConfig(path string, flags fileFlags) (configFile, error) {
	f := configFile{path: path, lines: map[keyInFile]int{}}
	raw, err := os.ReadFile(path)
	if err != nil {
		return f, usage("--config", path, err.Error())
	}
	if err := checkText("--config", path, raw); err != nil {
		return f, err
	}
	if f.folder, err = filepath.Abs(filepath.Dir(path)); err != nil {
		return f, err
	}
	err = f.parse(raw, flags)
	return f, err
}

// from is a value of a flag, if it is a path taken from the file's folder.
func (f *configFile) from(flag *kong.Flag, v string) string {
	for _, scheme := range []string{"bolt:", socketScheme} {
		if path, ok := strings.CutPrefix(v, scheme); ok && path != "" && (flag.Name == "store" || flag.Name == "listen") {
			return scheme + absolute(f.folder, path)
		}
	}
	if v != "" && slices.Contains([]string{"FILE", "PATH", "PREFIX"}, flag.PlaceHolder) && !strings.Contains(v, "://") {
		return absolute(f.folder, v)
	}
	return v
}

func absolute(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// parse reads a mapping of flags' names to their values. It refuses what it does not know, and
// names all that it refuses.
func (f *configFile) parse(raw []byte, flags fileFlags) error {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return usage(f.path, "", err.Error())
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return usage(f.path, "", "there is more than one document in it; write all into the first")
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return f.wrong(top.Line, "want a mapping, such as `warehouse: /srv/lake`")
	}
	f.values = map[string]any{}
	var all []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag, ok := flags[key.Value]
		if !ok {
			all = append(all, f.wrong(key.Line, "there is no %q; docs/configuration.md lists what there is%s", key.Value, nearest.Meant(key.Value, sortedKeys(flags))))
			continue
		}
		if _, twice := f.values[key.Value]; twice {
			all = append(all, f.wrong(key.Line, "%s stands there twice", key.Value))
		}
		v, err := f.value(flag, value)
		if err != nil {
			all = append(all, f.wrong(value.Line, "%s: %v", key.Value, err))
		}
		f.values[key.Value], f.lines[keyInFile{flag.Name, ""}] = v, key.Line
	}
	return allOf(all...)
}

func (f *configFile) wrong(line int, format string, args ...any) error {
	return usage(fmt.Sprintf("%s, line %d", f.path, line), "", fmt.Sprintf(format, args...))
}

// value is a value as kong takes it. Scalars stay text, as on the command line,
// so that a size of 1e3 or a name of `no` means here what it means there.
func (f *configFile) value(flag *kong.Flag, n *yaml.Node) (any, error) {
	switch {
	case flag.IsMap():
		return f.mapping(flag, n)
	case flag.IsSlice() && n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want a list of values")
			}
			v := f.from(flag, item.Value)
			list, f.lines[keyInFile{flag.Name, v}] = append(list, v), item.Line
		}
		return list, nil
	case n.Kind != yaml.ScalarNode:
		return nil, errors.New("want one value")
	case flag.IsSlice():
		return []any{f.from(flag, n.Value)}, nil
	}
	return f.from(flag, n.Value), nil
}

func (f *configFile) mapping(flag *kong.Flag, n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("want a mapping")
	}
	m := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s: want one value", name.Value)
		}
		if _, twice := m[name.Value]; twice {
			return nil, fmt.Errorf("%s stands there twice", name.Value)
		}
		m[name.Value], f.lines[keyInFile{flag.Name, name.Value}] = value.Value, name.Line
	}
	return m, nil
}

type configCommands struct {
	Check configCheckCommand `cmd:"" help:"Say what is wrong with a configuration file. Of what it names only the TLS, access and password files are opened."`
	Print configPrintCommand `cmd:"" help:"Print the configuration that serve would have, with where each value comes from."`
}

type configPrintCommand struct {
	File string `arg:"" optional:"" help:"The configuration file; without it $$TXCOORD_CONFIG, if that is set."`
}

// Help stands above the flags.
func (configPrintCommand) Help() string {
	return "Of a configuration that cannot be used it says the first thing that is wrong; txcoord config check FILE says all."
}

func (c *configPrintCommand) Run(_ context.Context, s *session) error {
	_, all, err := effective(s, c.File)
	if err != nil {
		return err
	}
	if s.Output == "json" {
		return s.tell("", settingsJSON(all))
	}
	for _, v := range all {
		text, err := yaml.Marshal(map[string]any{v.name: v.value})
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		lines[0] += " # " + v.from
		if v.name == "limit" {
			lines = append(lines, otherLimits(v.value)...)
		}
		if err := s.say(strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// settingsJSON has each flag by its name, with its value as text where it is a duration.
func settingsJSON(all []setting) object {
	out := object{}
	for _, v := range all {
		if d, ok := v.value.(time.Duration); ok {
			v.value = d.String()
		}
		out = append(out, field{v.name, object{{"value", v.value}, {"from", v.from}}})
	}
	return out
}

// otherLimits are those that are not set, as comments.
func otherLimits(set any) (lines []string) {
	given, _ := set.(map[string]string)
	for _, l := range limits {
		if _, ok := given[l.name]; !ok {
			lines = append(lines, fmt.Sprintf("    # %s: %s", l.name, l.def))
		}
	}
	return lines
}

// setting is a flag of serve with its value.
type setting struct {
	name, from string
	value      any
}

// effective parses what `serve --config FILE` would, and validates it.
func effective(s *session, path string) (*Config, []setting, error) {
	args := []string{"serve"}
	if s.Catalog != rpc.DefaultCatalog {
		args = append(args, "--catalog", s.Catalog)
	}
	if path != "" {
		args = append(args, "--config", path)
	}
	var grammar commands
	parser, err := newParser(&grammar, s)
	if err != nil {
		return nil, nil, err
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, nil, usageOf(err)
	}
	var file configFile
	if path = configPath(ctx, s.env); path != "" {
		if file, err = readConfig(path, flagsOfFile(ctx.Model)); err != nil {
			return nil, nil, err
		}
	}
	var out []setting
	for name, flag := range serveFlags(ctx) {
		out = append(out, setting{name, origin(flag, file.values, s.env), ctx.FlagValue(flag)})
	}
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	return &grammar.Serve.Config, out, nil
}

func origin(flag *kong.Flag, file map[string]any, env lookup) string {
	if name, v, _ := variableOf(flag, env); v != "" {
		return "$" + name
	}
	if _, ok := file[flag.Name]; ok {
		return "file"
	}
	return "default"
}
