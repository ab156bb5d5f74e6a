package input_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

func TestCheckNamesTheMember(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*fault.Field{
		`{"a":1}`:                    nil,
		` {"a":[{"b":"\u0061"}]} `:   nil,
		`[]`:                         nil,
		`{"a":"\ud83d\ude00"}`:       nil,
		`{"a":"\\u0000"}`:            nil,
		`{"a":1e400}`:                nil,
		`{"a":1,"a":2}`:              {Field: "a", Message: "is given twice"},
		`{"a":1,"\u0061":2}`:         {Field: "a", Message: "is given twice"},
		`{"m":[{},{"x":1,"x":1}]}`:   {Field: "m[1].x", Message: "is given twice"},
		`{"m":{"x":"a\u0000b"}}`:     {Field: "m.x", Message: "holds U+0000, which can't be kept"},
		`{"m":{"a\u0000b":1}}`:       {Field: "m.a\x00b", Message: "holds U+0000, which can't be kept"},
		`{"m":{"x":"\ud800"}}`:       {Field: "m.x", Message: "is not valid JSON in UTF-8"},
		"{\"m\":{\"x\":\"\xff\"}}":   {Field: "m.x", Message: "is not valid JSON in UTF-8"},
		`{"m":{"x":tru}}`:            {Field: "m.x", Message: "is not valid JSON in UTF-8"},
		`{"m":1`:                     {Field: "", Message: "is not valid JSON in UTF-8"},
		`{"m":1} x`:                  {Field: "", Message: "is not valid JSON in UTF-8"},
		`{} {}`:                      {Field: "", Message: "is not valid JSON in UTF-8"},
		``:                           {Field: "", Message: "is not valid JSON in UTF-8"},
		`{"m":` + nested(63) + `}`:   nil,
		`{"m":` + nested(64) + `}`:   {Field: "m[0][0][0][0][0][0][0]", Message: "is nested too deeply"},
		`{"m":` + nested(9999) + `}`: {Field: "m[0][0][0][0][0][0][0]", Message: "is nested too deeply"},
	} {
		require.Equal(t, want, input.Check([]byte(text)), "%.100s", text)
	}
}

// A row that is wrong fails no other, and the object around the rows is held to the same rules as any.
func TestCheckRowsLooksAtTheObjectAlone(t *testing.T) {
	t.Parallel()
	require.Nil(t, input.CheckRows([]byte(`{"rows":[{"a":1,"a":2},"\ud800",`+nested(2000)+`],"x":null}`)))
	require.Nil(t, input.CheckRows([]byte(`[]`)))
	require.Equal(t, &fault.Field{Field: "rows", Message: "is given twice"}, input.CheckRows([]byte(`{"rows":[],"x":1,"rows":[]}`)))
	require.Equal(t, &fault.Field{Field: "rows[0]", Message: "is not valid JSON in UTF-8"}, input.CheckRows([]byte(`{"rows":[}`)))

	var row input.Opt[json.RawMessage]
	require.Equal(t, &fault.Field{Field: "a", Message: "is given twice"}, input.Row([]byte(`{"a":1,"a":2}`), &row))
	require.Nil(t, input.Row([]byte(`{"a":1}`), &row))
	require.JSONEq(t, `{"a":1}`, string(row.Value))
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// What Check takes is JSON to encoding/json as well, and can be kept.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":"\u0000\ud800"}`, `[[1e9,true],null]`, "{\"\xff\":0}", `{"a":{"b":[{}]}} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if input.Check(text) != nil {
			return
		}
		require.True(t, json.Valid(text))
		var value any
		if json.Unmarshal(text, &value) == nil {
			kept, err := json.Marshal(value)
			require.NoError(t, err)
			require.NotContains(t, string(kept), `\u0000`+"\"")
		}
	})
}
