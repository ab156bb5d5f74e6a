#!/bin/sh
# generate.sh OAPI-CODEGEN OUT makes the generated part of package client, at the root of the repository.
set -eu
document=$(mktemp)
trap 'rm -f "$document"' EXIT
go run -trimpath ./httpapi/openapi/lean >"$document"
"$1" -config httpapi/client/oapi-codegen.yaml -o "$2" "$document"
