// Command train makes the model of the answering-machine detection from the tuning half of the corpus:
//
//	go run ./integration/amdcorpus/train > media/amd/model.bin
//
// With the argument check it cross-validates instead and prints what to expect.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/ringmaster/ringmaster/integration/amdcorpus"
	"github.com/ringmaster/ringmaster/media/amd"
)

// atOnce is how many recordings are held at once.
const atOnce = 340

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	samples, err := amdcorpus.PlanTuning(amdcorpus.Seed)
	if err != nil {
		return err
	}
	speech, err := amdcorpus.OpenSpeech(ctx)
	if err != nil {
		return err
	}
	var lessons amdcorpus.Lessons
	for some := range slices.Chunk(samples, atOnce) {
		recs, err := amdcorpus.Render(ctx, speech, some)
		if err != nil {
			return err
		}
		if err := lessons.Add(recs); err != nil {
			return err
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "check" {
		return lessons.CrossValidate(out)
	}
	var b []byte
	for _, t := range lessons.Fit() {
		b = amd.AppendTree(b, &t)
	}
	if _, err := out.Write(b); err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	return nil
}
