# Ringmaster: `make help` lists the targets.
GO       ?= go
BIN      := bin/ringmaster
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
SQLC     := $(GO) tool -modfile=.ci/tools/sqlc.mod sqlc
GOLANGCI := $(GO) tool -modfile=.ci/tools/golangci.mod golangci-lint
PKG      ?= ./...
FUZZTIME ?= 20s
LEADS    ?= 20
LEAKS    := ^(TestUnitsNeverLeak|TestHundredThousandCallsLeaveNoUnit)$$

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/ringmaster
	@mkdir -p bin
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ringmaster

.PHONY: run
run: postgres build ## install what is missing, build, and run the demo: a campaign on stand-ins, end to end
	$(BIN) demo --leads $(LEADS)

# The end-to-end suite listens to audio: it runs when nothing else wants the processor. Those of its tests that may run beside each
# other wait more than they work. `make lint` vets.
GOTEST := $(GO) test -race -vet=off -shuffle=on -timeout 25m
ifeq ($(PKG),./...)
TESTS = rc=0; $(GOTEST) $$($(GO) list ./... | grep -v /integration/e2e$$) || rc=1; $(GOTEST) -parallel 4 ./integration/e2e || rc=1; exit $$rc
else
TESTS = $(GOTEST) $(PKG)
endif

.PHONY: test
test: postgres build ## every test, with the race detector, shuffled, with leak checks (PKG=./media/... for one folder)
	RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(BIN) with-postgres -- sh -c '$(TESTS)'

.PHONY: lint
lint: ## vet, linters and formatting
	$(GO) vet ./...
	$(GOLANGCI) run ./...
	$(GOLANGCI) fmt --diff ./...

.PHONY: fmt
fmt: ## format the code
	$(GOLANGCI) fmt ./...

.PHONY: fuzz
fuzz: ## fuzz every parser, FUZZTIME each
	@for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
	  for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$file); do \
	    echo "== $$(dirname $$file) $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
	  done; done

.PHONY: bench
bench: postgres speech build ## the benchmarks that print ratios, a short run of the media endpoint's own, and 100,000 calls that must leave no unit
	-$(BIN) bench media --calls 100 --seconds 5
	RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(BIN) with-postgres -- $(GO) test -run '$(LEAKS)' -bench . -benchtime 1x -timeout 60m $(PKG)

.PHONY: generate
generate: ## regenerate the code that comes from .sql files
	$(SQLC) generate -f store/sqlc.yaml

.PHONY: verify
verify: ## the generated code and go.mod are current
	$(SQLC) diff -f store/sqlc.yaml
	$(GO) mod verify
	$(GO) mod tidy -diff

.PHONY: postgres
postgres: ## install PostgreSQL's server when the machine has none
	@sh .ci/postgres

.PHONY: speech
speech: ## install the speech synthesizer that the AMD benchmark's recordings are made with
	@sh .ci/speech
