// Package clients holds the API's description against generators that others wrote: redocly has nothing to say about it, and the clients
// that oapi-codegen, openapi-typescript and openapi-ts make of it compile and place a call. `make clients` runs it, and needs the network: the
// generators come from their registries, in the versions that testdata pins.
package clients
