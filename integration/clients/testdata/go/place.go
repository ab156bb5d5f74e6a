// Places a call with the client of oapi-codegen, waits until it is answered, and hangs up. Prints the call's id.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"clients/api"
)

func main() {
	if err := place(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func place(ctx context.Context) error {
	client, err := api.NewClientWithResponses(os.Getenv("BASE_URL"), api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
		return nil
	}))
	if err != nil {
		return err
	}
	voiceAgent, err := uuid.Parse(os.Getenv("VOICE_AGENT"))
	if err != nil {
		return err
	}
	key := uuid.NewString()
	placed, err := client.PlaceCallWithResponse(ctx, &api.PlaceCallParams{IdempotencyKey: &key}, api.PlaceCall{To: os.Getenv("CALLEE"), VoiceAgentId: &voiceAgent})
	if err != nil {
		return err
	}
	if placed.JSON201 == nil {
		return fmt.Errorf("the call is refused: %s", placed.Body)
	}
	id := placed.JSON201.Id
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		seen, err := client.GetCallWithResponse(ctx, id)
		if err != nil {
			return err
		}
		if seen.JSON200 == nil {
			return fmt.Errorf("the call can't be read: %s", seen.Body)
		}
		if seen.JSON200.AnswerTime != nil {
			break
		}
		if time.Now().After(end) {
			return errors.New("nobody has answered")
		}
	}
	over, err := client.HangupCallWithResponse(ctx, id, nil)
	if err != nil {
		return err
	}
	if over.JSON200 == nil {
		return fmt.Errorf("the call can't be ended: %s", over.Body)
	}
	fmt.Println(id)
	return nil
}
