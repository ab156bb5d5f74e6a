# Ringmaster: `make help` lists the targets.
GO       ?= go
BIN      := bin/ringmaster
RACEBIN  := bin/ringmaster-race
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKG      ?= ./...
FUZZTIME ?= 20s
LEADS    ?= 20
# Tests that are cut under the race detector, by -short, or unless RINGMASTER_BENCH is set.
WHOLE    := ^(TestUnitsNeverLeak|TestHundredThousandCallsLeaveNoUnit|TestNoWayAroundTheLaw|TestNoForbiddenNumberRings|TestTalkOff|TestWorkbookBombs|TestReducedGrid|TestReferenceCells|TestProgressiveIsTheReferences|TestMachines|TestInboundCallersInFront|TestSmallTeamsBesideInboundCallers|TestVerbsInRandomOrder|TestOutcomesAreWrittenOnce|TestAHangingCRMMovesNothing|TestNeighbourLatency|TestEventsArriveThoughKilled)$$

# The tools that generate and lint are built once for what .ci/tools and the Go version say, outside the tree: clean clones share them.
TOOLS    := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ringmaster/$(shell (cat .ci/tools/*; $(GO) version) | sha256sum | cut -c1-32)
SQLC     := $(TOOLS)/sqlc
GOLANGCI := $(TOOLS)/golangci
CODEGEN  := $(TOOLS)/oapi-codegen

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/ringmaster
	@mkdir -p bin
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ringmaster

# Calls as they are, with little audio: what `make release` has the compiler go by. It ages slowly; take it anew when a release is a tenth slower with it
# than with a new one.
PROFILE  := cmd/ringmaster/release.pgo

.PHONY: release
release: ## build bin/ringmaster for a host: compiled by a profile of calls, which takes minutes longer and costs a call less
	@mkdir -p bin
	$(GO) build -trimpath -pgo=$(PROFILE) -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/ringmaster

.PHONY: profile
profile: postgres build ## take that profile anew, on a machine that does nothing else
	$(BIN) bench calls --rate 20 --duration 60s --profile $(PROFILE)

.PHONY: run
run: postgres build ## install what is missing, build, and run the demo: a campaign on stand-ins, end to end
	$(BIN) demo --leads $(LEADS)

$(TOOLS)/%:
	@mkdir -p $(@D)
	$(GO) build -modfile=.ci/tools/$*.mod -o $@.$$$$ $$(sed -n 's/^tool //p' .ci/tools/$*.mod) && mv $@.$$$$ $@

# `make lint` vets. Tests that work (units) run first, three packages at a time, since they wait for the database, the longest first. Then, with the
# processor to themselves, those that go by the clock: real audio, whole stacks, phones, and last the end-to-end suite. Beside one another on two
# processors either kind was late. Of the clock's, five packages run at a time, those that wait longest first (WAITING); of the end-to-end suite ten tests,
# after the few that listen alone. Those that compute (plain) run beside all of it on what processor time is left over, which chrt(1) sees to: nothing
# in them is late or early. Those that start programs (PROGRAMS) run before, at their turn: a database that has to be up in a minute isn't while others
# leave nothing. Trimmed paths have clean clones share what is compiled; nobody debugs a test's binary by its symbols (-w), which took a quarter of the
# linking.
# The packages of plain start no goroutine, or none that shares anything: the race detector, under which they take seven times as long, has nothing to
# find there. The exceptions are tested with it: the seeds that a grid of days computes side by side (RACED); the document that apitest and openapi
# load once, by the tests of httpapi; the log's queue, in cmd/logqueue.
# Some of media's tests (WHOLEHERE) play much by a clock of their own in one goroutine: the race detector has a part of it, plain all.
# The race detector would have each process sleep for a second when it ends.
GOTEST    = env GORACE=atexit_sleep_ms=0 RINGMASTER_BINARY=$(CURDIR)/$(BIN) RINGMASTER_CONTROLLER=$(CURDIR)/$(RACEBIN) $(BIN) with-postgres -- \
            $(1) $(GO) test -vet=off -trimpath -ldflags=-w -shuffle=on -timeout 25m
E2E      := /integration/e2e$$
CLOCK    := /(media|integration)(/|$$)
LONGEST  := /(dialer|httpapi|store)$$
WAITING  := /(integration/phones|integration/simcarrier|integration/simswitch|media|integration/aikit)$$
PROGRAMS := /(cmd/ringmaster|cmd/remote)$$
PLAIN    := /(dialer/pacing|dialer/pacing/sim|dialer/staffing|httpapi/apitest|httpapi/openapi|media/amd|media/dsp|media/dtmf|media/jsonscan|media/openai|media/playout|media/rtp|media/twilio|media/wav)$$
RACED    := ^TestSeedsBesideEachOther$$
WHOLEHERE := ^(TestMarksInEveryInterleaving|TestOwnSchema|TestTwilioSchema|TestCutsDontClick)$$
LEFTOVER := $(shell chrt -i 0 true 2>/dev/null && echo chrt -i 0 || echo nice -n 19)

.PHONY: test
test: postgres build race ## every test, with the race detector, shuffled, with leak checks (PKG=./media/... for one folder)
	@$(MAKE) --no-print-directory plain & plain=$$!; rc=0; $(MAKE) --no-print-directory units || rc=1; $(MAKE) --no-print-directory clock || rc=1; \
	wait $$plain || rc=1; exit $$rc

.PHONY: race
race: # what tests are built on, and the controller of the end-to-end suite, with the race detector
	@$(GO) build -race -trimpath -o $(RACEBIN) ./cmd/ringmaster

.PHONY: plain
plain: postgres build ## the tests of PKG without the race detector: those that start programs, then those that compute
	@rc=0; all=$$($(GO) list $(PKG)) || exit 1; \
	some=$$(echo "$$all" | grep -E '$(PROGRAMS)'); [ -z "$$some" ] || $(call GOTEST) -short $$some || rc=1; \
	some=$$(echo "$$all" | grep -E '$(PLAIN)'); [ -z "$$some" ] || $(call GOTEST,$(LEFTOVER)) -short -p 1 $$some || rc=1; \
	some=$$(echo "$$all" | grep '/media$$'); [ -z "$$some" ] || $(call GOTEST,$(LEFTOVER)) -run '$(WHOLEHERE)' $$some || rc=1; \
	some=$$(echo "$$all" | grep '/pacing/sim$$'); [ -z "$$some" ] || $(call GOTEST,$(LEFTOVER)) -race -run '$(RACED)' $$some || rc=1; exit $$rc

.PHONY: units
units: postgres build ## the tests of PKG that work: those of no folder that goes by the clock
	@all=$$($(GO) list $(PKG)) || exit 1; some=$$(echo "$$all" | grep -vE '$(CLOCK)|$(PLAIN)|$(PROGRAMS)'); long=$$(echo "$$some" | grep -E '$(LONGEST)'); \
	[ -z "$$some" ] || $(call GOTEST) -race -p 3 -parallel 4 $$long $$(echo "$$some" | grep -vE '$(LONGEST)')

.PHONY: clock
clock: postgres build race ## the tests of PKG that go by the clock: media, integration, and last the end-to-end suite
	@rc=0; all=$$($(GO) list $(PKG)) || exit 1; some=$$(echo "$$all" | grep -E '$(CLOCK)' | grep -vE '$(E2E)|$(PLAIN)'); long=$$(echo "$$some" | grep -E '$(WAITING)'); \
	[ -z "$$some" ] || $(call GOTEST) -race -p 5 $$long $$(echo "$$some" | grep -vE '$(WAITING)') || rc=1; \
	$(MAKE) --no-print-directory e2e || rc=1; exit $$rc

.PHONY: e2e
e2e: postgres build race ## the end-to-end suite, if PKG has it; the race detector is in the controller, which is what it tests
	@all=$$($(GO) list $(PKG)) || exit 1; some=$$(echo "$$all" | grep '$(E2E)'); [ -z "$$some" ] || $(call GOTEST) -parallel 64 $$some

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
	RINGMASTER_BENCH=1 RINGMASTER_BINARY=$(CURDIR)/$(BIN) $(BIN) with-postgres --shared-buffers 2GB -- $(GO) test -run '$(WHOLE)' -bench . -benchtime 1x -timeout 60m $(PKG)

.PHONY: generate
generate: $(SQLC) $(CODEGEN) ## regenerate the code that comes from .sql files and from the API's description
	$(SQLC) generate -f store/sqlc.yaml
	sh httpapi/client/generate.sh $(CODEGEN) httpapi/client/generated.go

.PHONY: verify
verify: $(SQLC) $(CODEGEN) ## the generated code and go.mod are current
	$(SQLC) diff -f store/sqlc.yaml
	@made=$$(mktemp) && sh httpapi/client/generate.sh $(CODEGEN) $$made && diff -u httpapi/client/generated.go $$made && rm $$made
	$(GO) mod verify
	$(GO) mod tidy -diff

.PHONY: postgres
postgres: ## install PostgreSQL's server when the machine has none
	@sh .ci/postgres

.PHONY: speech
speech: ## install the synthesizers and the announcements that the AMD benchmark's recordings are made from
	@sh .ci/speech

.PHONY: amd-model
amd-model: speech ## make media/amd/model.bin anew from the training sources of the corpus, and print what sources that are kept out say of it
	RINGMASTER_AMD_MODEL=$(CURDIR)/media/amd/model.bin $(GO) test -vet=off -trimpath -count=1 -v -timeout 60m -run '^TestTrain$$' ./integration/amdcorpus
