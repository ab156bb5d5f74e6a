package client

import "github.com/oapi-codegen/nullable"

// Set is a member of a PATCH that gets a value.
func Set[T any](value T) nullable.Nullable[T] { return nullable.NewNullableWithValue(value) }

// Null is a member of a PATCH that is cleared.
func Null[T any]() nullable.Nullable[T] { return nullable.NewNullNullable[T]() }
