package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/alecthomas/kong"
)

// commands is the whole command line. Flags of Globals go anywhere.
type commands struct {
	Globals

	Serve    serveCommand     `cmd:"" help:"Serve a catalog over gRPC."`
	Sidecar  sidecarCommand   `cmd:"" help:"Serve a catalog to one machine or pod, on a Unix socket or a loopback address."`
	Demo     demoCommand      `cmd:"" help:"Show in a fresh folder what txcoord does, in some seconds."`
	Tables   tablesCommands   `cmd:"" help:"Which tables belong to the catalog."`
	Tx       txCommands       `cmd:"" help:"Transactions, step by step."`
	Commit   commitCommand    `cmd:"" help:"Commit a whole transaction from a JSON file, in one call."`
	Snapshot snapshotCommands `cmd:"" help:"Which versions of all tables belong together."`
	Status   statusCommand    `cmd:"" help:"How the catalog is."`
	Health   healthCommand    `cmd:"" help:"Whether a server serves the catalog now: by exit code, for containers. It needs no token."`
	Top      topCommand       `cmd:"" help:"Watch the catalog: commits and conflicts a second, rounds, slow and frozen tables, replicas."`
	Doctor   doctorCommand    `cmd:"" help:"Look for what is wrong, or will be: configuration, clocks, places, replicas, tables, other writers."`
	Config   configCommands   `cmd:"" help:"What a configuration file says."`
	Access   accessCommand    `cmd:"" help:"Tokens, and what an access file says."`
	Store    storeCommands    `cmd:"" help:"The place where the journal is: make it, and see that it is fit."`
	Rebuild  rebuildCommand   `cmd:"" help:"Make a new journal from the tables' logs and the manifests, where the catalog's own is lost. Shows a plan first."`
	Fsck     fsckCommand      `cmd:"" help:"Prove from the tables' logs that every committed transaction is whole, and name what is not. Writes nothing."`
	GC       gcCommands       `cmd:"" name:"gc" help:"Put into quarantine what nothing names any more, and remove it later. Shows first what would go. Alone it is gc collect: gc collect --help has its flags."`
	Version  versionCommand   `cmd:"" help:"Print the version of this program."`
}

// Globals are the flags of every command.
type Globals struct {
	Credentials `embed:""`

	Server      string        `help:"Address of the server ($$TXCOORD_SERVER, else ${server})." default:"${server}" environ:"TXCOORD_SERVER" placeholder:"HOST:PORT"`
	Catalog     string        `help:"Catalog ($$TXCOORD_CATALOG, else default)." default:"default" environ:"TXCOORD_CATALOG" placeholder:"NAME"`
	Output      string        `help:"How to print: table (for people), json, or id (only what later commands need)." short:"o" enum:"table,json,id" default:"table" placeholder:"FORMAT"`
	AtLeast     uint64        `help:"Answer from a state that contains this snapshot version." placeholder:"SNAPSHOT"`
	AwaitServer bool          `help:"Where no server listens, try again until --timeout instead of failing at once."`
	Timeout     time.Duration `help:"Give up after this long, 1m if not given; 0 never does. Until then a call whose answer is lost is repeated." default:"1m" placeholder:"DURATION"`
}

const defaultServer = "127.0.0.1:7401"

const description = `Atomic commits over several Delta tables.

Exit codes: 0 done; 2 wrong usage or request; 3 not found; 4 aborted (a conflict, a passed deadline);
5 exists already; 6 a precondition does not hold (a frozen table, a part not staged); 7 unavailable or
unknown outcome: repeat the same command; 8 data loss: an operator has to look; 9 read again, the read point
is too old; 10 a quota is used up; 11 not allowed; 12 committed, and given up on one of its tables; 13 doctor has warnings, 14 errors; 130 interrupted; 1 anything else.`

// lookup is os.LookupEnv, or a test's.
type lookup func(name string) (string, bool)

// run is the program. It returns the exit code, and takes all that it uses of the
// process as arguments.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env lookup) (code int) {
	defer exitOf(&code)
	s := &session{in: stdin, out: stdout, err: stderr, env: env}
	s.Output = outputOf(args) // for what ends the program before all is parsed
	var grammar commands
	parser, err := newParser(&grammar, s, kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		return report(stderr, "table", err)
	}
	if err := checkWords(args, env, parser.Model); err != nil {
		return report(stderr, s.Output, err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return report(stderr, s.Output, s.origins.name(usageOf(err)))
	}
	s.Globals, s.serverFrom = grammar.Globals, serverGiven(command, env)
	err = command.Run()
	return report(stderr, s.Output, errors.Join(s.origins.name(err), s.close()))
}

func newParser(grammar *commands, s *session, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(grammar, append([]kong.Option{
		kong.Name("txcoord"), kong.Description(description), kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.Resolvers(fromEnvironment(s.env)),
		kong.Vars{"server": defaultServer, "stores": storeForms(), "rebuild_losses": rebuildLosses()},
		kong.ExplicitGroups([]kong.Group{
			{Key: "read", Title: "What was read of the table before the change was made:"},
			{Key: "observe", Title: "How it is looked at:"},
			{Key: "security", Title: "Who may do what, and who is on the other side:"},
		}),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(instant)), kong.NamedMapper("given", kong.MapperFunc(given)), kong.Help(help),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Bind(s),
	}, more...)...)
}

// notOf are the flags of Globals that a command makes no use of.
var notOf = map[string][]string{
	"serve":   {"server", "output", "at-least", "timeout", "await-server"},
	"init":    {"server", "at-least"},
	"check":   {"server", "at-least"},
	"fsck":    {"server", "at-least", "timeout", "await-server"},
	"move":    {"server", "at-least", "timeout", "await-server"},
	"rebuild": {"server", "at-least", "timeout", "await-server"},
	"token":   {"server", "catalog", "at-least", "timeout", "await-server"},
	"health":  {"at-least"},
	"sidecar": {"server", "output", "at-least", "timeout", "await-server"},
	"print":   {"server", "at-least", "timeout", "await-server"},
	"demo":    {"server", "catalog", "output", "at-least", "timeout", "await-server"},
	"version": {"server", "catalog", "at-least", "timeout", "await-server"},
}

// help leaves out the flags that say nothing to the command.
func help(o kong.HelpOptions, c *kong.Context) error {
	if node := c.Selected(); node != nil {
		for _, f := range c.Model.Flags {
			f.Hidden = f.Hidden || slices.Contains(notOf[node.Name], f.Name)
		}
	}
	return kong.DefaultHelpPrinter(o, c)
}

// instant reads a time.
func instant(c *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := c.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%q is not a time like 2026-11-29T18:30:00Z or 2026-11-29T19:30:00+01:00", text)
	}
	target.Set(reflect.ValueOf(t))
	return nil
}

// given reads what says who somebody is, or which work this is. Where a script's variable is
// empty, it must not go on as if nothing had been said.
func given(c *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := c.Scan.PopValueInto(c.Value.Name, &text); err != nil {
		return err
	}
	if text == "" {
		return emptyValue("--"+c.Value.Name, "leave it out")
	}
	target.SetString(text)
	return nil
}

// emptyValue is about what was meant to be given; without says how to give nothing.
func emptyValue(what, without string) error {
	return usage(what, "", "it is given, and empty; give it a value, or "+without)
}

// exit is how kong ends the program, after --help for one.
type exit int

func exitOf(code *int) {
	switch p := recover().(type) {
	case nil:
	case exit:
		*code = int(p)
	default:
		panic(p)
	}
}

// fromEnvironment fills flags that are not given from the variables that their
// environ tags name.
func fromEnvironment(env lookup) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		_, value, err := variableOf(flag, env)
		if value == "" {
			return nil, err
		}
		return value, nil
	})
}

// variableOf is the variable that a flag's environ tag names, if there is one, and what it
// says; empty if nothing.
func variableOf(flag *kong.Flag, env lookup) (name, value string, err error) {
	if name = flag.Tag.Get("environ"); name == "" {
		return "", "", nil
	}
	switch value, set := env(name); {
	case !set:
		return name, "", nil
	case value == "" && flag.Tag.Type == "given":
		return name, "", emptyValue("$"+name, "unset it")
	default:
		return name, value, nil
	}
}

type versionCommand struct{}

func (versionCommand) Run(s *session) error {
	return s.tell("txcoord "+version(), object{{"version", version()}})
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
