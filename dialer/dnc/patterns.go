package dnc

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ringmaster/ringmaster/store"
)

// ErrPattern refuses a pattern that is not ten digits or question marks.
var ErrPattern = errors.New("do-not-call pattern is not ten digits or question marks")

var patternForm = regexp.MustCompile(`^[0-9?]{10}$`)

// patterned lists what its registry lists, and whole ranges besides.
type patterned struct {
	registry Provider
	patterns []string
}

// WithPatterns adds ranges that are barred wholesale to a registry: ten digits each, ? standing for any digit. The registry
// is still asked for every number: one that can't answer keeps a number from being dialed, barred or not.
func WithPatterns(registry Provider, patterns []string) (Provider, error) {
	for _, p := range patterns {
		if !patternForm.MatchString(p) {
			return nil, fmt.Errorf("%w: %q", ErrPattern, p)
		}
	}
	if len(patterns) == 0 {
		return registry, nil
	}
	return &patterned{registry: registry, patterns: patterns}, nil
}

// Listed answers as the registry does, and true for a number in a barred range.
func (p *patterned) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	listed, err := p.registry.Listed(ctx, phones)
	if err != nil {
		return nil, err
	}
	for i, phone := range phones {
		listed[i] = listed[i] || p.barred(phone.National())
	}
	return listed, nil
}

func (p *patterned) barred(national string) bool {
	for _, pattern := range p.patterns {
		if len(national) == len(pattern) && matches(pattern, national) {
			return true
		}
	}
	return false
}

func matches(pattern, digits string) bool {
	for i := range len(pattern) {
		if pattern[i] != '?' && pattern[i] != digits[i] {
			return false
		}
	}
	return true
}
