// Command train makes the coefficients of the answering-machine detection from the tuning half of the corpus and writes them as
// the source of media/amd/model.go:
//
//	go run ./integration/amdcorpus/train > media/amd/model.go
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/ringmaster/ringmaster/integration/amdcorpus"
)

// takes is how often the tuning half is recorded, each time with other words and on other lines.
const takes = 4

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
	samples, err := amdcorpus.PlanTuning(amdcorpus.Seed, takes)
	if err != nil {
		return err
	}
	speech, err := amdcorpus.OpenSpeech(ctx)
	if err != nil {
		return err
	}
	recs, err := amdcorpus.Render(ctx, speech, samples)
	if err != nil {
		return err
	}
	w := amdcorpus.Fit(recs)
	_, err = fmt.Fprintf(out, `package amd

// weights are the coefficients of Features.Vector, fitted to the tuning half of the corpus by
//
//	go run ./integration/amdcorpus/train > media/amd/model.go
func weights() [%d]float64 {
	return [...]float64{`, len(w))
	if err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	for i, v := range w {
		sep := ", "
		if i == 0 {
			sep = ""
		}
		if _, err := fmt.Fprintf(out, "%s%.4f", sep, v); err != nil {
			return fmt.Errorf("writing the model: %w", err)
		}
	}
	if _, err := io.WriteString(out, "}\n}\n"); err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	return nil
}
