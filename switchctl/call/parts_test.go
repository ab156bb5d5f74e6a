package call

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartsAreWired: each part of a call has the others that it names, and they are this call's.
func TestPartsAreWired(t *testing.T) {
	t.Parallel()
	k := &core{}
	all := reflect.ValueOf(newParts(k))
	own := map[reflect.Type]any{}
	for _, field := range all.Fields() {
		own[field.Type()] = field.UnsafePointer()
	}
	for _, field := range all.Fields() {
		part := field.Elem()
		for j := range part.NumField() {
			name := part.Type().String() + "." + part.Type().Field(j).Name
			switch f := part.Field(j); {
			case f.Type() == reflect.TypeFor[*core]():
				require.Equal(t, reflect.ValueOf(k).UnsafePointer(), f.UnsafePointer(), name)
			case f.Type() == reflect.TypeFor[*parties]():
				require.False(t, f.IsNil(), name)
				for _, field := range f.Elem().Fields() {
					require.False(t, field.IsNil(), name)
				}
			case own[f.Type()] != nil:
				require.Equal(t, own[f.Type()], f.UnsafePointer(), name)
			}
		}
	}
}
