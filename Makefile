# make            generate, lint, test
# make test       all tests, with the race detector and in random order
# make build      bin/txcoord
# make demo       the demo in a fresh folder
# make bench      the measurements
# make supply     vulnerabilities and licences of what the program is built on
# make release    a release of the tag that is checked out, as a draft
# make fuzz       what reads foreign input, fed with nonsense

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

.PHONY: all
all: generate lint test

# Tests that run delta-rs, DuckDB and Spark beside us fetch these into the cache
# folder TOOLS, by version; without python3, and for Spark Java and Maven, they skip
# and say so, with TXCOORD_REQUIRE_READERS=1 they fail. So do tests on real stores
# without the server, which are built, or installed with npm, the same way:
# TXCOORD_REQUIRE_SERVERS=1.
#
# How much memory a checkpoint of a million files takes is seen without the race
# detector alone, so that runs by itself at the end.
#
# The race detector needs a C compiler. Without one the tests run without it, and
# say so; .ci/run insists.
RACE ?= $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && echo -race)
TESTFLAGS ?=
PACKAGES ?= ./...

.PHONY: test
test:
	@[ -n "$(RACE)" ] || echo "no C compiler: the race detector is off"
	go test $(RACE) -shuffle=on -timeout 20m $(TESTFLAGS) $(PACKAGES)
ifeq ($(PACKAGES),./...)
	go test -run TestCheckpointMemory $(TESTFLAGS) ./tables -maintain.files 1000000
endif

.PHONY: build
build:
	go build -o bin/ ./cmd/txcoord

.PHONY: demo
demo: build
	bin/txcoord demo

# One of B1, B2, B6, or all: make bench RUN=B1
.PHONY: bench
bench:
	go run ./bench $(if $(RUN),-run $(RUN))

# Each fuzz target for FUZZTIME, one after another; stops at the first that finds
# something, which lies in its package's testdata/fuzz then. FUZZ is a pattern of
# their names: make fuzz FUZZ=FuzzRead FUZZTIME=10m
FUZZTIME ?= 1m
FUZZPROCS ?= 1
FUZZ ?= .
.PHONY: fuzz
fuzz:
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func (.*)|\1 \2|' | sort | \
	while read -r package target; do \
		if ! grep -qE '$(FUZZ)' <<<"$$target"; then continue; fi; \
		echo "== $$package $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel $(FUZZPROCS) "$$package" </dev/null; \
	done

# goreleaser is fetched and built for it: 570 modules, so not a tool that is kept.
# RELEASE="--snapshot" makes the files without a tag, and uploads nothing.
# A release is not built with a Go whose own library has a vulnerability that we call.
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
.PHONY: release
release:
	$(if $(findstring --snapshot,$(RELEASE)),,$(call supply,vulnerabilities -std))
	go run $(GORELEASER) release --clean --config deploy/goreleaser.yaml $(RELEASE)

.PHONY: clean
clean:
	rm -rf bin .cache

# --- pinned tools, built once per version into a cache folder ----------------

TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/txcoord-tools
GOVERSION := $(shell go env GOVERSION)
tooldir = $(TOOLS)/$(1)-$(GOVERSION)-$(firstword $(shell cksum tools/$(1)/go.sum))
PROTOC := $(call tooldir,protoc)
BUF := $(call tooldir,buf)
GOLANGCI := $(call tooldir,golangci)

$(PROTOC)/.built:
	cd tools/protoc && GOBIN=$(PROTOC) go install tool
	@touch $@
$(BUF)/.built:
	@echo "building buf; this takes some minutes, once"
	cd tools/buf && GOBIN=$(BUF) go install tool
	@touch $@
$(GOLANGCI)/.built:
	@echo "building golangci-lint; this takes some minutes, once"
	cd tools/golangci && GOBIN=$(GOLANGCI) go install tool
	@touch $@

# --- generated code ----------------------------------------------------------

.PHONY: generate
generate: $(PROTOC)/.built $(BUF)/.built
	PATH="$(PROTOC):$$PATH" $(BUF)/buf generate
	$(call apidoc,docs/api.md)

# The reference of the API, from the comments of the .proto files.
apidoc = $(BUF)/buf build proto --as-file-descriptor-set -o -\#format=binpb | go run ./tools/apidoc -o $(1)

# Fails if the generated code, or the API's reference, is not exactly what the .proto
# files say. Touches nothing.
.PHONY: generate-check
generate-check: $(PROTOC)/.built $(BUF)/.built
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	PATH="$(PROTOC):$$PATH" $(BUF)/buf generate --output "$$fresh"; \
	for dir in proto/txcoord/v1 twophase/recordpb; do \
		diff -r --exclude='*.proto' --exclude=doc.go "$$fresh/$$dir" "$$dir" >/dev/null || \
			{ echo "$$dir: generated code is stale; run make generate and commit"; exit 1; }; \
	done; \
	$(call apidoc,"$$fresh/api.md"); \
	diff "$$fresh/api.md" docs/api.md || { echo "docs/api.md is stale; run make generate and commit"; exit 1; }

# --- lint --------------------------------------------------------------------

.PHONY: lint
lint: $(BUF)/.built $(GOLANGCI)/.built
	$(BUF)/buf lint
	$(BUF)/buf format --diff --exit-code
	go vet ./...
	$(GOLANGCI)/golangci-lint run ./...

.PHONY: fmt
fmt: $(BUF)/.built $(GOLANGCI)/.built
	$(BUF)/buf format --write
	$(GOLANGCI)/golangci-lint fmt ./...

# --- what the program is built on ---------------------------------------------

SHIPPED := ./cmd/txcoord ./clients/go
supply = go run -C tools/supply . $(1) ../.. $(SHIPPED)

# Fails for vulnerable code that is called, and for licences that are not allowed or not
# listed. The database of vulnerabilities is as new as its version in tools/supply/go.mod;
# VULNDB=https://vuln.go.dev asks the newest instead.
.PHONY: supply
supply:
	go test -C tools/supply .
	$(call supply,vulnerabilities $(if $(VULNDB),-db $(VULNDB)))
	$(call supply,licences -check $(LICENCES))

LICENCES := -list docs/licenses.md -texts THIRD_PARTY_LICENSES
.PHONY: licences
licences:
	$(call supply,licences $(LICENCES))

# What on the wire, or in the journal, is not compatible with an older state:
# make breaking AGAINST=v0.1.0
.PHONY: breaking
breaking: $(BUF)/.built
	$(BUF)/buf breaking --against ".git#ref=$(AGAINST)"
