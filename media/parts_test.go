package media

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartsAreWired: each part has the others that it names, and they are of the same owner.
func TestPartsAreWired(t *testing.T) {
	t.Parallel()
	all := reflect.ValueOf(assemble(&portCore{})).Elem()
	own := map[reflect.Type]any{}
	for _, field := range all.Fields() {
		own[field.Type()] = field.UnsafePointer()
	}
	for _, field := range all.Fields() {
		part := field.Elem()
		for j := range part.NumField() {
			if f := part.Field(j); own[f.Type()] != nil {
				require.Equal(t, own[f.Type()], f.UnsafePointer(), part.Type().String()+"."+part.Type().Field(j).Name)
			}
		}
	}
}
