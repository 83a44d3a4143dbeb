package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/memstore"
)

// StoreFlags say where a catalog's journal is. Secrets are never on the command line.
type StoreFlags struct {
	BucketFlags `embed:""`
	// Store is the catalog's memory: the journal, on which every decision stands.
	Store string `help:"Where the journal is: ${stores}. Default: bolt:<warehouse>/_txcoord/<catalog>.db ($$TXCOORD_STORE)." environ:"TXCOORD_STORE" placeholder:"STORE"`

	EtcdUser         string `help:"User at the etcd cluster; the password is read from $$TXCOORD_ETCD_PASSWORD or --etcd-password-file ($$TXCOORD_ETCD_USER)." environ:"TXCOORD_ETCD_USER" placeholder:"NAME" type:"given"`
	EtcdPasswordFile string `help:"File that holds the password at the etcd cluster ($$TXCOORD_ETCD_PASSWORD_FILE)." environ:"TXCOORD_ETCD_PASSWORD_FILE" placeholder:"PATH" type:"given"`
	EtcdCA           string `name:"etcd-ca" help:"PEM file of the authorities that sign the certificates of the etcd members; the system's without it ($$TXCOORD_ETCD_CA)." environ:"TXCOORD_ETCD_CA" placeholder:"PATH" type:"given"`
	EtcdCert         string `help:"PEM file of the certificate that txcoord shows to etcd ($$TXCOORD_ETCD_CERT)." environ:"TXCOORD_ETCD_CERT" placeholder:"PATH" type:"given"`
	EtcdKey          string `help:"PEM file of its key ($$TXCOORD_ETCD_KEY)." environ:"TXCOORD_ETCD_KEY" placeholder:"PATH" type:"given"`

	// readOnly: the journal is there, and nothing is written, not even to try the place.
	readOnly bool
}

// storeKind is one kind of journal store. The table of them is all that a new one
// has to be added to.
type storeKind struct {
	// scheme is what --store begins with.
	scheme string
	// form is how it is written, for messages and --help.
	form string
	// parse makes sense of what follows the scheme's colon.
	parse func(storeSpec) (*journalStore, error)
}

var storeKinds = []storeKind{
	{"bolt", "bolt:PATH", boltJournal},
	{"etcd", "etcd://HOST:PORT[,HOST:PORT…][/PREFIX]", etcdJournal},
	{"dynamodb", "dynamodb://TABLE[?region=REGION]", dynamoJournal},
	{"s3", "s3://BUCKET[/PREFIX]", bucketJournal},
	{"gs", "gs://BUCKET[/PREFIX]", bucketJournal},
	{"az", "az://CONTAINER[/PREFIX]", bucketJournal},
	{"mem", "mem", memJournal},
}

// storeForms lists how a store may be written.
func storeForms() string {
	var forms []string
	for _, k := range storeKinds {
		forms = append(forms, k.form)
	}
	return strings.Join(forms, ", ")
}

// storeSpec is a store as a user names it.
type storeSpec struct {
	StoreFlags
	// rest is what follows the scheme's colon.
	rest    string
	catalog string
	env     lookup
	log     *slog.Logger
}

// journalStore is a store that can be opened.
type journalStore struct {
	// name is for people; it holds no secret.
	name string
	// place is the URI of the folder or file that it is in; empty where it is in neither.
	place string
	// shared: any number of processes may serve from it.
	shared bool
	open   func(context.Context) (lock.Store, error)
	// absent reports whether open would make the place; nil where that is not known.
	absent func() bool
	// prepare makes the place where the journal will stand, if it has to be made, and
	// says what it found or made; nil where the first start does that.
	prepare func(context.Context) (string, error)
}

// errUnmade: a store that is opened to be read would have to be made.
var errUnmade = errors.New("name the store that the catalog is in")

// openAlone opens the store for a command that works on it without a server: one that has it
// open has to end, where a server would need another file.
func (j *journalStore) openAlone(ctx context.Context) (lock.Store, error) {
	store, err := j.open(ctx)
	if errors.Is(err, boltstore.ErrInUse) {
		return nil, fmt.Errorf("%s: %w: a running server, or another command, has it open; end that first", j.name, boltstore.ErrInUse)
	}
	return store, err
}

// find makes sense of --store.
func (f StoreFlags) find(catalog string, env lookup, log *slog.Logger) (*journalStore, error) {
	if !coordinator.ValidName(catalog) {
		return nil, usage("--catalog", catalog, "use "+coordinator.NameForm)
	}
	scheme, rest, _ := strings.Cut(f.Store, ":")
	i := slices.IndexFunc(storeKinds, func(k storeKind) bool { return k.scheme == scheme })
	if i < 0 {
		return nil, usage("--store", shown(f.Store), "write one of "+storeForms())
	}
	return storeKinds[i].parse(storeSpec{f, rest, catalog, env, log})
}

// clean is a store as it may be shown: without what could be a password in a URL.
func clean(store string) string {
	before, after, ok := strings.Cut(store, "@")
	if !ok {
		return store
	}
	scheme, _, _ := strings.Cut(before, ":")
	return scheme + "://…@" + after
}

// shown is a URL as an error about it shows it: without options, whose values may be
// secrets that somebody expects to go there. The error names the option that is wrong.
func shown(s string) string {
	place, options, ok := strings.Cut(s, "?")
	switch {
	case !ok:
		return clean(s)
	case !strings.Contains(place, "@") && strings.Contains(options, "@"): // the ? may be one of a password's
		scheme, _, _ := strings.Cut(place, ":")
		return scheme + "://…"
	}
	return clean(place) + "?…"
}

// bad is an error about the store's URL, which is shown without secrets.
func (s storeSpec) bad(remedy string) error { return usage("--store", shown(s.Store), remedy) }

// place splits a URL of the store: //<authority>/<path>?<options>. Names of options
// that it does not know are refused.
func (s storeSpec) place(form string, known ...string) (authority, path string, options url.Values, err error) {
	rest, ok := strings.CutPrefix(s.rest, "//")
	if !ok {
		return "", "", nil, s.bad("write " + form)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if options, err = url.ParseQuery(query); err != nil {
		return "", "", nil, s.bad("write the options behind ? as name=value&name=value")
	}
	if wrong := wrongOption(options, known); wrong != "" {
		return "", "", nil, s.bad(wrong)
	}
	authority, path, _ = strings.Cut(rest, "/")
	if e := options.Get("endpoint"); strings.Contains(authority, "@") || withoutPassword(e) != e {
		return "", "", nil, s.bad("leave user and password out: the command line is for everybody to see. " +
			"For etcd say --etcd-user, and put the password into $TXCOORD_ETCD_PASSWORD or a file; for DynamoDB use AWS's own variables or files")
	}
	return authority, path, options, nil
}

// wrongOption is said of what stands behind the ? of a URL; empty where nothing is wrong with it.
func wrongOption(options url.Values, known []string) string {
	for _, name := range sortedKeys(options) {
		switch {
		case !slices.Contains(known, name):
			return fmt.Sprintf("there is no option %q; there are %s%s", name, strings.Join(known, ", "), nearest.Meant(name, known))
		case options.Get(name) == "":
			return fmt.Sprintf("option %s is empty; give it a value, or leave it out", name)
		}
	}
	return ""
}

// prefix stands in front of the catalog's keys: its own for each catalog, unless one
// is given.
func (s storeSpec) prefix(given string) string {
	if given = strings.Trim(given, "/"); given != "" {
		return given + "/"
	}
	return "txcoord/" + s.catalog + "/"
}

// duration is an option's value; 0 if it is not given.
func (s storeSpec) duration(options url.Values, name string) (time.Duration, error) {
	text := options.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, s.bad(fmt.Sprintf("option %s: %q is not a duration like 3s", name, text))
	}
	return d, nil
}

func boltJournal(s storeSpec) (*journalStore, error) {
	if s.rest == "" {
		return nil, s.bad("write bolt:PATH")
	}
	path, err := filepath.Abs(s.rest)
	if err != nil {
		return nil, err
	}
	return &journalStore{name: "file " + path, place: path, open: func(context.Context) (lock.Store, error) {
		if s.readOnly {
			return openBoltReadOnly(path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		store, err := boltstore.Open(path, boltstore.Config{})
		if err != nil {
			return nil, err
		}
		return store, nil
	}, absent: func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}}, nil
}

func openBoltReadOnly(path string) (lock.Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, lock.Mark(lock.ErrUnfit, fmt.Errorf("there is no file %s: %w", path, errUnmade))
	}
	store, err := boltstore.Open(path, boltstore.Config{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return store, nil
}

func memJournal(s storeSpec) (*journalStore, error) {
	if s.Store != "mem" {
		return nil, s.bad("write mem alone")
	}
	return &journalStore{name: "memory", open: func(context.Context) (lock.Store, error) {
		s.log.Warn("the journal is in memory: the catalog ends with this process, and its warehouse cannot be used again")
		return memstore.New(memstore.Config{}), nil
	}}, nil
}

// etcdPassword is from the environment, or from a file; empty if neither is named.
func (s storeSpec) etcdPassword() (string, error) {
	const flag, variable = "--etcd-password-file", "TXCOORD_ETCD_PASSWORD"
	if s.EtcdPasswordFile != "" {
		b, err := os.ReadFile(s.EtcdPasswordFile)
		if err != nil {
			return "", usage(flag, s.EtcdPasswordFile, err.Error())
		}
		password := strings.TrimRight(string(b), "\r\n") // anything else may belong to it
		return password, filled(flag, s.EtcdPasswordFile, password)
	}
	if password, ok := s.env(variable); ok {
		return password, filled("$"+variable, "", password)
	}
	return "", nil
}

// isNew reports whether there is no journal in a store yet. It errs where one is being
// moved there.
func isNew(ctx context.Context, store lock.Store) (bool, error) {
	_, err := store.Get(ctx, lock.MetaKey)
	if errors.Is(err, lock.ErrNotFound) {
		return true, lock.Unfinished(ctx, store)
	}
	return false, err
}
