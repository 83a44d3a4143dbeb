package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// configured looks at the configuration and at the places that it names, and returns it, with
// where its values come from; nil if there is none, or it makes no sense.
func (x *examination) configured(ctx context.Context, file string) (*Config, []setting) {
	if warehouse, _ := x.s.env("TXCOORD_WAREHOUSE"); file == "" && warehouse == "" {
		x.add(severityNote, "configuration", "", "no configuration was named: neither it nor the places that it names were looked at", "txcoord doctor FILE, with the file of serve --config")
		return nil, nil
	}
	where := cmp.Or(file, "environment")
	x.began("configuration")
	c, settings, err := effective(x.s, file)
	if err != nil { // the first of them
		x.failed("configuration", where, mistakesIn(x.s, file))
		return nil, nil
	}
	x.failed("configuration", where, x.s.origins.name(c.checkFiles(x.s)))
	x.settings(c, where)
	x.schemes(file)
	c.env = x.s.env
	ctx, cancel := x.s.bounded(ctx)
	defer cancel()
	x.store(ctx, c)
	x.objects(ctx, c)
	return c, settings
}

// defaults of the limits that are compared; coordinator.Limits has them.
const (
	defaultMaxTTL    = 24 * time.Hour
	defaultMaxLease  = 30 * 24 * time.Hour
	defaultRetention = 7 * 24 * time.Hour
)

// settings are those that work, and may not be what is wanted.
func (x *examination) settings(c *Config, where string) {
	ttl, kept := cmp.Or(c.coordinator.MaxTTL, defaultMaxTTL), cmp.Or(c.coordinator.OutcomeRetention, defaultRetention)
	if kept < ttl {
		x.add(severityWarning, "configuration", where, fmt.Sprintf("outcomes are remembered for %s, and a transaction may live for %s: who asks late is told OUTCOME_EXPIRED, and its key is not unique any more", kept, ttl),
			"raise the limit outcome_retention above transaction_ttl")
	}
	if c.NoProbe {
		x.add(severityWarning, "configuration", where, "no-probe is set: a server does not see whether its places honour conditions", "take it out, unless a place may not be written for the moment")
	}
	if c.Insecure {
		x.add(severityWarning, "configuration", where, "insecure is set: nothing is encrypted, and everybody may do everything", "set tls-cert, tls-key and access (docs/security.md)")
	}
	if c.Store == "mem" {
		x.add(severityWarning, "configuration", where, "the journal is in memory: it is gone with the process, and the catalog with it", "name another store (docs/stores.md)")
	}
}

var s3Place = regexp.MustCompile(`\b(s3|s3a|s3n)://([A-Za-z0-9.-]+)`)

// schemes: one bucket that is written in several ways. Here they are one place; engines
// and the entries of Spark's log store take them for several.
func (x *examination) schemes(file string) {
	texts := []string{}
	if path := file; path != "" {
		if b, err := os.ReadFile(path); err == nil { // that it cannot be read was said
			texts = append(texts, string(b))
		}
	}
	for _, name := range []string{"TXCOORD_WAREHOUSE", "TXCOORD_STORE"} {
		v, _ := x.s.env(name)
		texts = append(texts, v)
	}
	seen := map[string]map[string]bool{}
	for _, m := range s3Place.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		if seen[m[2]] == nil {
			seen[m[2]] = map[string]bool{}
		}
		seen[m[2]][m[1]] = true
	}
	for _, bucket := range sortedKeys(seen) {
		if len(seen[bucket]) > 1 {
			x.add(severityWarning, "schemes", bucket, "one bucket is written as "+strings.Join(slices.Sorted(maps.Keys(seen[bucket])), "://, ")+
				"://: this server takes them for one place, other engines and the entries of Spark's log store do not", "write it in one way everywhere")
		}
	}
}

// store tries the journal's place.
func (x *examination) store(ctx context.Context, c *Config) {
	x.began("store")
	journal, err := c.journal(x.s.Catalog, slog.New(slog.DiscardHandler))
	if err != nil {
		x.failed("store", "store", err)
		return
	}
	if journal.absent != nil && journal.absent() {
		x.add(severityNote, "store", journal.name, "there is no journal yet; the first start of a server makes it", "")
		return
	}
	store, err := journal.open(ctx)
	if errors.Is(err, boltstore.ErrInUse) {
		x.add(severityNote, "store", journal.name, "a server has it open, so that it cannot be tried beside it", "")
		return
	}
	if err != nil {
		x.failed("store", journal.name, err)
		return
	}
	x.failed("store", journal.name, lock.Probe(ctx, store))
	if clocked, ok := store.(lock.Clocked); ok {
		if ahead, told := clocked.Ahead(); told {
			x.clock("this machine", "the store's server", ahead)
		}
	}
	if err := store.Close(); err != nil {
		x.failed("store", journal.name, err)
	}
}

// skew is what clocks may be apart: a server that is further ahead of its store appends
// nothing.
const skew = 5 * time.Second

func (x *examination) clock(whose, than string, ahead time.Duration) {
	x.began("clocks")
	if ahead.Abs() <= skew {
		return
	}
	text := fmt.Sprintf("its clock is at least %s ahead of that of %s", ahead.Round(time.Second), than)
	if ahead < 0 {
		text = fmt.Sprintf("its clock is at least %s behind that of %s", (-ahead).Round(time.Second), than)
	}
	x.add(severityError, "clocks", whose, text, "have the machines keep time (NTP): deadlines and the times in tables depend on it, and a server that is ahead of its store appends nothing")
}

// objects tries each place where tables may lie: written, read, listed, removed, and
// raced for.
func (x *examination) objects(ctx context.Context, c *Config) {
	x.began("objects")
	for _, place := range append([]string{c.Warehouse}, c.Allow...) {
		if p, err := parsePlace(place); err == nil && p.local() {
			if _, err := os.Stat(p.String()); os.IsNotExist(err) {
				severity := severityNote
				if place != c.Warehouse {
					severity = severityWarning
				}
				x.add(severity, "objects", place, "there is no such folder yet", "")
				continue
			}
		}
		o, err := newObjects(ctx, []string{place}, c.BucketFlags, true, slog.New(slog.DiscardHandler))
		if err != nil {
			x.failed("objects", place, err)
			continue
		}
		if err := o.Close(); err != nil {
			x.failed("objects", place, err)
		}
	}
}
