package sim

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// The picture's measures, in pixels.
const (
	plotWidth, plotHeight       = 960, 560
	plotLeft, plotRight         = 60, 20
	upperTop, upperHeight       = 50, 240
	lowerTop, lowerHeight       = 340, 160
	plotInner                   = plotWidth - plotLeft - plotRight
	smoothing                   = 5    // minutes
	mostAbandon                 = 0.04 // the lower scale's end
	fewForRate                  = 15 * time.Minute
	colourA, colourB, colourCap = "#1f6feb", "#8b949e", "#cf222e"
)

// Plot draws one day of each result as SVG: above the utilisation, below the abandon rate so far; shocks are shaded.
func Plot(w io.Writer, sc Scenario, results ...Result) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="20" font-size="15">%d agents, %.0f%% answer, talk %s, wrap-up %s</text>`+"\n",
		plotLeft, sc.Agents, 100*sc.AnswerRate, sc.Talk, sc.WrapUp)
	x := func(at time.Duration) float64 { return plotLeft + plotInner*float64(at)/float64(sc.Hours) }
	if len(results) > 0 {
		for _, s := range results[0].Shocks {
			from, to := x(s.At), x(min(sc.Hours, s.At+s.For))
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#fff3c4"/><text x="%.1f" y="%d" font-size="10">%s</text>`+"\n",
				from, upperTop, to-from, lowerTop+lowerHeight-upperTop, from+2, upperTop+11, s.Kind)
		}
	}
	axes(&b, sc, x)
	for i, r := range results {
		colour := colourA
		if i > 0 {
			colour = colourB
		}
		fmt.Fprintf(&b, `<text x="%d" y="40" fill="%s">%s: %.1f%% busy, %.2f%% abandoned</text>`+"\n",
			plotLeft+300*i, colour, r.Mode, 100*r.Utilisation, 100*r.AbandonTotal)
		line(&b, colour, r.Series, func(at int, s Sample) (float64, float64, bool) {
			return x(s.At), upperTop + upperHeight*(1-smooth(r.Series, at)), true
		})
		line(&b, colour, r.Series, func(_ int, s Sample) (float64, float64, bool) {
			return x(s.At), lowerTop + lowerHeight*(1-min(1, s.AbandonRate/mostAbandon)), s.At >= fewForRate
		})
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func axes(b *bytes.Buffer, sc Scenario, x func(time.Duration) float64) {
	for share := 0; share <= 100; share += 20 {
		y := float64(upperTop) + upperHeight*(1-float64(share)/100)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#eee"/><text x="%d" y="%.1f" text-anchor="end">%d%%</text>`+"\n",
			plotLeft, y, plotWidth-plotRight, plotLeft-6, y+4, share)
	}
	for share := range 5 {
		y := float64(lowerTop) + lowerHeight*(1-float64(share)/4)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#eee"/><text x="%d" y="%.1f" text-anchor="end">%d%%</text>`+"\n",
			plotLeft, y, plotWidth-plotRight, plotLeft-6, y+4, share)
	}
	y := lowerTop + lowerHeight*(1-pacing.Cap/mostAbandon)
	fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="%s" stroke-dasharray="4"/>`+"\n", plotLeft, y, plotWidth-plotRight, colourCap)
	step := max(time.Hour, (sc.Hours / 12).Truncate(time.Hour))
	for at := time.Duration(0); at <= sc.Hours; at += step {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f h</text>`+"\n", x(at), lowerTop+lowerHeight+20, at.Hours())
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">busy, by %d minutes; below: abandoned of those answered so far, and the cap</text>`+"\n",
		plotLeft, upperTop+upperHeight+25, smoothing)
}

func line(b *bytes.Buffer, colour string, series []Sample, point func(int, Sample) (x, y float64, shown bool)) {
	b.WriteString(`<polyline fill="none" stroke="` + colour + `" points="`)
	for i, s := range series {
		if x, y, shown := point(i, s); shown {
			fmt.Fprintf(b, "%.1f,%.1f ", x, y)
		}
	}
	b.WriteString(`"/>` + "\n")
}

func smooth(series []Sample, at int) float64 {
	from := max(0, at-smoothing+1)
	sum := 0.0
	for _, s := range series[from : at+1] {
		sum += s.Utilisation
	}
	return sum / float64(at+1-from)
}
