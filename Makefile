# Ringmaster: `make help` lists the targets.
GO        ?= go
SQLC      := $(GO) tool -modfile=.ci/tools/sqlc.mod sqlc
GOLANGCI  := $(GO) tool -modfile=.ci/tools/golangci.mod golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## regenerate the code that comes from .sql files
	$(SQLC) generate -f store/sqlc.yaml
