package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
	"github.com/txcoord/txcoord/lock/etcdstore"
)

// etcdJournal: etcd://host:2379,host:2379/prefix?tls=true&timeout=3s&compact=false.
func etcdJournal(s storeSpec) (*journalStore, error) {
	hosts, prefix, options, err := s.place("etcd://HOST:PORT,HOST:PORT/PREFIX", "tls", "timeout", "compact")
	if err != nil {
		return nil, err
	}
	cfg := etcdstore.Config{Prefix: s.prefix(prefix), Username: s.EtcdUser, Log: s.log}
	secure := s.EtcdCA != "" || s.EtcdCert != "" || s.EtcdKey != "" || options.Get("tls") == "true"
	if secure {
		if cfg.TLS, err = etcdstore.LoadTLS(s.EtcdCA, s.EtcdCert, s.EtcdKey); err != nil {
			return nil, usage("--etcd-ca, --etcd-cert, --etcd-key", "", err.Error())
		}
	}
	for _, host := range strings.Split(hosts, ",") {
		if host == "" {
			return nil, s.bad("name the members of the cluster, as in etcd://10.0.0.1:2379,10.0.0.2:2379")
		}
		cfg.Endpoints = append(cfg.Endpoints, map[bool]string{false: "http://", true: "https://"}[secure]+withPort(host, "2379"))
	}
	if cfg.RequestTimeout, err = s.duration(options, "timeout"); err != nil {
		return nil, err
	}
	cfg.NoCompaction = options.Get("compact") == "false" || s.readOnly
	if cfg.Password, err = s.etcdPassword(); err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (lock.Store, error) {
		store, err := etcdstore.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	name := fmt.Sprintf("etcd at %s, prefix %s", hosts, cfg.Prefix)
	return &journalStore{name: name, shared: true, open: open}, nil
}

func withPort(host, port string) string {
	if i := strings.LastIndex(host, ":"); i > strings.LastIndex(host, "]") {
		return host
	}
	return host + ":" + port
}

// dynamoJournal: dynamodb://table?region=…&endpoint=…&prefix=…&profile=…&timeout=3s.
func dynamoJournal(s storeSpec) (*journalStore, error) {
	table, path, options, err := s.place("dynamodb://TABLE?region=REGION", "region", "endpoint", "prefix", "profile", "timeout")
	if err != nil {
		return nil, err
	}
	if table == "" || strings.Trim(path, "/") != "" {
		return nil, s.bad("write dynamodb://TABLE?region=REGION, and a prefix of the keys as option: prefix=NAME")
	}
	cfg := dynamostore.Config{
		Table: table, Region: options.Get("region"), Endpoint: options.Get("endpoint"),
		Prefix: s.prefix(options.Get("prefix")), Profile: options.Get("profile"), ReadOnly: s.readOnly, Log: s.log,
	}
	if cfg.RequestTimeout, err = s.duration(options, "timeout"); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("DynamoDB table %s, prefix %s", table, cfg.Prefix)
	return &journalStore{
		name: name, shared: true,
		open: func(ctx context.Context) (lock.Store, error) {
			store, err := dynamostore.Open(ctx, cfg)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		prepare: func(ctx context.Context) (string, error) {
			made, err := dynamostore.Init(ctx, cfg)
			if !made || err != nil {
				return fmt.Sprintf("DynamoDB table %s was there, and was left as it is", table), err
			}
			return fmt.Sprintf("made DynamoDB table %s: billed on demand, protected against deletion", table), nil
		},
	}, nil
}
