// Package client is a typed client of Ringmaster's API. A program of a customer's may import it: it imports nothing of the server.
//
//	c, err := client.New(client.Config{BaseURL: "https://ringmaster.example", Token: "svc_live_…"})
//	call, err := c.Calls.PlaceCall(ctx, client.PlaceCall{To: "9876543210"})
//
// A method has its operation's operationId, and answers what the operation answers on success; whatever else it answers is an *Error, with
// the code to branch on (CodeOf) and the id of the request to quote. What a PATCH may clear is a nullable.Nullable: Set gives it a value, Null clears
// it, and a member that is left alone stays as it is. Methods that begin with All go through the pages of a list.
//
// Every POST that takes one carries an Idempotency-Key of its own (WithIdempotencyKey for one that outlives the program). After a lost
// connection, requests are repeated that do the same when they come twice: GET, DELETE, and those with such a key. A refusal that says
// when to come again is waited for, if that is soon (Config.MaxWait): 429, and for repeatable requests 503 and unknown_outcome. A secret that is
// shown once comes masked when its first answer was lost: make another. Redirections are refusals, and addresses in clear are for this machine alone
// (Config.Insecure).
//
// How to read it: client.go (what there is), request.go and retry.go (how requests are sent), errors.go, files.go (recordings and lead files, which
// are streamed), generated.go. That comes from the API's description by oapi-codegen, whose types are good and whose own client is ten times
// the code and hands each status out in a member of its own; so the methods are of a template of ours (templates/), and the
// description is put into a form that gives types pleasant names (openapi.Lean). `make generate` makes it, `make verify` holds it against what is committed.
package client
