package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/tables"
)

// Config is how a server is set up; its fields are the flags of serve.
type Config struct {
	ConfigFile string `name:"config" help:"File (YAML) with values of these flags, by their names; flags and variables count before it ($$TXCOORD_CONFIG)." environ:"TXCOORD_CONFIG" placeholder:"FILE"`
	// Listen is where gRPC is served. An address that other machines reach wants TLS and
	// an access file.
	Listen string `help:"Address to serve on; port 0 takes a free one ($$TXCOORD_LISTEN, else ${server})." default:"${server}" environ:"TXCOORD_LISTEN" placeholder:"HOST:PORT"`
	// Advertise is where other replicas reach this one: an optimisation, which does
	// not have to work.
	Advertise string `help:"Address at which other servers of the catalog reach this one, if it is not the one of --listen ($$TXCOORD_ADVERTISE)." environ:"TXCOORD_ADVERTISE" placeholder:"HOST:PORT"`
	Security  `embed:""`
	Observe   `embed:""`
	// Warehouse is the folder of the catalog's own objects: manifests, checkpoints,
	// large payloads. Tables may lie there, too.
	Warehouse  string `required:"" help:"Folder, as path or URI, under which _txcoord/<catalog>/ keeps manifests and large payloads ($$TXCOORD_WAREHOUSE)." environ:"TXCOORD_WAREHOUSE" placeholder:"PATH"`
	StoreFlags `embed:""`
	// WarehouseMoved is said once, when the warehouse's place has changed.
	WarehouseMoved bool `help:"The warehouse has moved, with everything in it: note its new place in a store that others share, where another one is refused."`
	// LogStore is the table of entries of Spark's S3DynamoDBLogStore, for tables of mode
	// delta-storage.
	LogStore string `help:"The DynamoDB table of Spark's S3DynamoDBLogStore, for tables of mode delta-storage: dynamodb://TABLE?region=REGION&scheme=s3a ($$TXCOORD_LOG_STORE)." environ:"TXCOORD_LOG_STORE" placeholder:"URL"`
	// Allow are the places, besides the warehouse, where tables may be.
	Allow []string `help:"Tables may lie below this location, too, not only below the warehouse. May be given several times." placeholder:"PREFIX" sep:"none"`
	// NoProbe trusts the places of objects.
	NoProbe bool `help:"Do not test at the start that the places of tables refuse to overwrite, and show at once what was written."`
	// Limit sets limits by the names that errors use.
	Limit map[string]string `help:"Set a limit, by the name that errors give it; --list-limits lists them." placeholder:"NAME=VALUE" mapsep:"none"`
	// Maintain keeps the tables' logs short: see coordinator.MaintainConfig.
	Maintain bool `help:"Write Delta checkpoints of the tables in the background, at the interval that each table asks for, and remove the expired part of the logs of those that nobody else writes."`
	// CleanOpen and KeepLogs are those of coordinator.MaintainConfig.
	CleanOpen bool `help:"Maintenance removes the expired part of the logs of open tables, too. Otherwise that is left to the other engines." xor:"logs"`
	KeepLogs  bool `help:"Maintenance removes nothing from any log." xor:"logs"`
	// StopTimeout is for calls in flight when the server is asked to end.
	StopTimeout time.Duration `help:"How long calls in flight may take when the server is told to end." default:"30s"`
	// ReadyFile gets the address once the server answers.
	ReadyFile string `help:"Write the address into this file once the server answers." placeholder:"PATH"`
	LogLevel  string `help:"What to log on standard error: debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
	LogFormat string `help:"text or json." enum:"text,json" default:"text"`

	coordinator coordinator.Limits
	maintain    coordinator.MaintainConfig
	rpc         rpc.Limits
	quota       quota.Limits
	env         lookup // for secrets; nil has none
	peerCA      string // authorities that other replicas' certificates are checked against
	readOnly    bool   // nothing is written into the store
	recorder    *telemetry.Recorder
	// drainFor is how long to go on publishing at the end; nil means StopTimeout.
	drainFor *time.Duration
}

// Validate refuses what cannot work, before anything is opened, and names all of it. It
// fills in what follows from other fields.
func (c *Config) Validate() error {
	all := []error{c.validateListen()}
	if c.StopTimeout < 0 {
		all = append(all, usage("--stop-timeout", c.StopTimeout.String(), "give a duration of 0 or more"))
	}
	if c.CleanOpen && c.KeepLogs {
		all = append(all, usage("--clean-open", "", "--keep-logs says the contrary; leave one of them out"))
	}
	return allOf(append(all, c.validateLocations(), c.setLimits())...)
}

func (c *Config) setLimits() error {
	c.quota = quota.Defaults()
	var all []error
	refused := map[string]bool{}
	for _, name := range sortedKeys(c.Limit) {
		err := setLimit(c, name, c.Limit[name])
		all, refused[name] = append(all, err), err != nil
	}
	// What the stream takes and what a part may have is one limit.
	c.rpc.PartBytes, c.rpc.Actions = c.coordinator.Actions.PartBytes, c.coordinator.Actions.Actions
	all = append(all, c.validateTimes(refused))
	if !refused["message_bytes"] && !refused["chunk_bytes"] {
		if err := c.rpc.Validate(); err != nil {
			all = append(all, usage("--limit", "", err.Error()))
		}
	}
	return allOf(all...)
}

// validateTimes: what a transaction gets that asks for nothing, it has to be able to have.
// Nothing is said of what does not fit to a limit that was refused.
func (c *Config) validateTimes(refused map[string]bool) error {
	var all []error
	for _, t := range []struct {
		name, within string
		is, most     time.Duration
	}{
		{"default_ttl", "transaction_ttl", c.coordinator.TTL, cmp.Or(c.coordinator.MaxTTL, defaultMaxTTL)},
		{"lease_ttl", "max_lease_ttl", c.coordinator.LeaseTTL, cmp.Or(c.coordinator.MaxLeaseTTL, defaultMaxLease)},
	} {
		if t.is > t.most && !refused[t.within] {
			all = append(all, usage("--limit "+t.name, t.is.String(), fmt.Sprintf("give at most %s, which is %s, or raise that", t.within, t.most)))
		}
	}
	return allOf(all...)
}

func (c *Config) validateListen() error {
	all := []error{validAddress("--listen", c.Listen, true)}
	if all[0] == nil {
		all = append(all, c.reachable("--listen", c.Listen))
	}
	if c.Advertise != "" {
		all = append(all, validAddress("--advertise", c.Advertise, false))
	}
	return allOf(append(all, c.Security.validate(), c.validateObserve())...)
}

// validAddress refuses what nobody can listen on, or reach.
func validAddress(flag, address string, socket bool) error {
	if _, _, err := net.SplitHostPort(address); err != nil && !(socket && isSocket(address)) {
		if socket {
			return usage(flag, address, "write it as host:port, or unix:PATH")
		}
		return usage(flag, address, "write it as host:port")
	}
	if path, ok := strings.CutPrefix(address, socketScheme); ok && len(path) > longestSocket {
		return usage(flag, address, fmt.Sprintf("the system takes %d bytes for the path of a socket, and it has %d: give a shorter one", longestSocket, len(path)))
	}
	return validPort(flag, address)
}

// validPort: whether the address has the right form is asked elsewhere.
func validPort(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil || isSocket(address) {
		return nil
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usage(flag, address, "the port is a number from 0 to 65535")
	}
	return nil
}

func (c *Config) validateLocations() error {
	var all []error
	note := func(err error) { all = append(all, err) }
	set := func(flag string, location *string) {
		uri, err := canonical(flag, *location)
		if note(err); err == nil {
			*location = uri
		}
	}
	if c.Warehouse == "" {
		note(usage("--warehouse", "", "say where the catalog's objects shall lie, such as --warehouse lake"))
	} else {
		set("--warehouse", &c.Warehouse)
	}
	for i := range c.Allow {
		set("--allow", &c.Allow[i])
	}
	if c.LogStore != "" {
		_, err := parseLogStore(c.LogStore)
		note(err)
	}
	_, err := c.BucketFlags.parse()
	note(err)
	if c.Store != "" {
		journal, err := c.find(rpc.DefaultCatalog, nothingSet, slog.New(slog.DiscardHandler))
		if note(err); err == nil {
			note(c.besideManifests(journal))
		}
	}
	return once(allOf(all...))
}

// besideManifests refuses a journal in the folder of the catalogs' own objects, whose names
// would be taken for the others'. A file has a name that is none of theirs.
func (c *Config) besideManifests(journal *journalStore) error {
	if !journal.shared || journal.place == "" {
		return nil
	}
	at, err := tables.CanonicalURI(journal.place)
	if err != nil {
		return usage("--store", c.Store, err.Error())
	}
	own := c.Warehouse + "/_txcoord"
	if at == own || strings.HasPrefix(at, own+"/") {
		return usage("--store", c.Store, "manifests are below "+own+": give the journal a folder of its own")
	}
	return nil
}

// nothingSet is an environment without variables.
func nothingSet(string) (string, bool) { return "", false }

// canonical is a location in the form in which the catalog keeps it.
func canonical(flag, location string) (string, error) {
	absolute, err := place(location)
	if err != nil {
		return "", err
	}
	uri, err := tables.CanonicalURI(absolute)
	if err != nil {
		return "", usage(flag, location, err.Error())
	}
	if _, err := parsePlace(uri); err != nil {
		return "", usage(flag, location, err.Error())
	}
	return uri, nil
}

// journal is where the journal is: what --store says, else a file in the warehouse.
func (c *Config) journal(catalog string, log *slog.Logger) (*journalStore, error) {
	f := c.StoreFlags
	if f.Store == "" {
		warehouse, err := localPath(c.Warehouse)
		if err != nil {
			return nil, usage("--store", "", "say where the journal is: "+storeForms()+"; it can be left out only where the warehouse is a local folder")
		}
		f.Store = "bolt:" + filepath.Join(warehouse, "_txcoord", catalog+".db")
	}
	env := c.env
	if env == nil {
		env = nothingSet
	}
	f.readOnly = c.readOnly
	return f.find(catalog, env, log)
}

func (c *Config) level() slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return l
}
