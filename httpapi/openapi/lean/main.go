// Command lean prints the description of the API as package client is generated from it.
package main

import (
	"fmt"
	"os"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

func main() {
	document, err := openapi.Lean()
	if err == nil {
		_, err = os.Stdout.Write(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
