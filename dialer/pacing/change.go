package pacing

const (
	// changeMemory is the number of expected answers after which old ones weigh half.
	changeMemory = 12
	// changeDoubt is the weight of the model against what was seen.
	changeDoubt = 6
)

// changeDetector compares the answers of late with those that the model expected, so that a changed answer rate shows within
// a few answers. Every call adds to the expectation while it rings: were it counted only at its end, the answered ones, which
// end sooner, would look too many whenever more calls are dialed than before.
type changeDetector struct {
	expected, seen float64
	past           float64 // expectation of the calls that have ended since the last plan
	ringing        float64 // expectation of the calls that were ringing at the last plan
}

func (c *changeDetector) ended(expected float64, answered bool) {
	c.past += expected
	if answered {
		c.seen++
	}
}

func (c *changeDetector) advance(ringing float64) {
	grown := max(0, c.past+ringing-c.ringing)
	keep := changeMemory / (changeMemory + grown)
	c.expected = c.expected*keep + grown
	c.seen *= keep
	c.rebase(ringing)
}

// rebase takes the expectation of the calls that ring by a new model.
func (c *changeDetector) rebase(ringing float64) { c.past, c.ringing = 0, ringing }

// factor is by how much more often calls are answered than the model says.
func (c *changeDetector) factor() float64 {
	return (c.seen + changeDoubt) / (c.expected + changeDoubt)
}
