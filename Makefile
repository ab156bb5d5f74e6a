# Ringmaster: `make help` lists the targets.
GO       ?= go
BIN      := bin/ringmaster
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKG      ?= ./...
FUZZTIME ?= 20s
LEADS    ?= 20
# Tests that are cut under the race detector, or unless RINGMASTER_BENCH is set.
WHOLE    := ^(TestUnitsNeverLeak|TestHundredThousandCallsLeaveNoUnit|TestNoWayAroundTheLaw|TestNoForbiddenNumberRings|TestTalkOff|TestWorkbookBombs|TestReducedGrid|TestReferenceCells|TestProgressiveIsTheReferences|TestMachines|TestInboundCallersInFront|TestSmallTeamsBesideInboundCallers|TestVerbsInRandomOrder)$$

# The tools that generate and lint are built once for what .ci/tools and the Go version say, outside the tree: clean clones share them.
TOOLS    := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ringmaster/$(shell (cat .ci/tools/*; $(GO) version) | sha256sum | cut -c1-32)
SQLC     := $(TOOLS)/sqlc
GOLANGCI := $(TOOLS)/golangci

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/ringmaster
	@mkdir -p bin
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ringmaster

.PHONY: run
run: postgres build ## install what is missing, build, and run the demo: a campaign on stand-ins, end to end
	$(BIN) demo --leads $(LEADS)

$(TOOLS)/%:
	@mkdir -p $(@D)
	$(GO) build -modfile=.ci/tools/$*.mod -o $@.$$$$ $$(sed -n 's/^tool //p' .ci/tools/$*.mod) && mv $@.$$$$ $@

# `make lint` vets. Many tests wait more than they work, for a database or for time to pass: three packages at a time keep two processors
# busy. Those of the media endpoint, and of phones, run after them, at their own pace, since packets come by the clock. The end-to-end suite listens to audio: it
# runs when nothing else uses the processor. Trimmed paths have clean clones share what is
# compiled.
# The race detector would have each process sleep for a second when it ends.
GOTEST   := GORACE=atexit_sleep_ms=0 RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(BIN) with-postgres -- $(GO) test -race -vet=off -trimpath -shuffle=on -timeout 25m
E2E      := /integration/e2e$$
MEDIA    := /(media|integration/phones)(/|$$)

.PHONY: test
test: ## every test, with the race detector, shuffled, with leak checks (PKG=./media/... for one folder)
	@rc=0; $(MAKE) --no-print-directory units || rc=1; $(MAKE) --no-print-directory e2e || rc=1; exit $$rc

.PHONY: units
units: postgres build ## the tests of PKG without the end-to-end suite
	@rc=0; all=$$($(GO) list $(PKG)) || exit 1; \
	some=$$(echo "$$all" | grep -vE '$(MEDIA)|$(E2E)'); [ -z "$$some" ] || $(GOTEST) -p 3 -parallel 4 $$some || rc=1; \
	some=$$(echo "$$all" | grep -E '$(MEDIA)'); [ -z "$$some" ] || $(GOTEST) $$some || rc=1; exit $$rc

.PHONY: e2e
e2e: postgres build ## the end-to-end suite, if PKG has it
	@some=$$($(GO) list $(PKG) | grep '$(E2E)'); [ -z "$$some" ] || $(GOTEST) -parallel 4 $$some

.PHONY: clients
clients: postgres build ## hold the API's description against generators of clients; needs npm, and the network for what it pins
	RINGMASTER_CLIENTS=1 RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(GO) test -vet=off -trimpath -count=1 -v -run TestGeneratedClientsPlaceACall ./integration/clients

.PHONY: lint
lint: $(GOLANGCI) ## linters, vet among them, and formatting
	$(GOLANGCI) run ./...
	$(GOLANGCI) fmt --diff ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt ./...

.PHONY: fuzz
fuzz: ## fuzz every parser, FUZZTIME each
	@for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
	  for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$file); do \
	    echo "== $$(dirname $$file) $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
	  done; done

.PHONY: bench
bench: postgres speech build ## the benchmarks that print ratios, a short run of the media endpoint's own, and whole the tests that the race detector makes too long
	-$(BIN) bench media --calls 100 --seconds 5
	RINGMASTER_BENCH=1 RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(BIN) with-postgres -- $(GO) test -run '$(WHOLE)' -bench . -benchtime 1x -timeout 60m $(PKG)

.PHONY: generate
generate: $(SQLC) ## regenerate the code that comes from .sql files
	$(SQLC) generate -f store/sqlc.yaml

.PHONY: verify
verify: $(SQLC) ## the generated code and go.mod are current
	$(SQLC) diff -f store/sqlc.yaml
	$(GO) mod verify
	$(GO) mod tidy -diff

.PHONY: postgres
postgres: ## install PostgreSQL's server when the machine has none
	@sh .ci/postgres

.PHONY: speech
speech: ## install the speech synthesizer that the AMD benchmark's recordings are made with
	@sh .ci/speech
