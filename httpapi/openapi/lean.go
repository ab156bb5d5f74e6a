package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Lean is the Document as package client is generated from it. Errors are not in it: they are of one form for all operations, which the client
// knows. Nor are events, and operations whose bodies are no JSON, which the client has by hand. What a generator would have to make up a name
// for has one: bodies and answers are those of their operations (PlaceCallRequest), objects within objects those of their members, and lists of
// values that occur more than once are one.
func Lean() ([]byte, error) {
	raw, err := Document()
	if err != nil {
		return nil, err
	}
	l := &lean{patched: map[string]bool{}, done: map[string]bool{}}
	if err := json.Unmarshal(raw, &l.whole); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	delete(l.whole, "webhooks")
	components, _ := l.whole["components"].(map[string]any)
	l.schemas, _ = components["schemas"].(map[string]any)
	paths, _ := l.whole["paths"].(map[string]any)
	l.operations(paths)
	l.raw = maps.Clone(l.schemas)
	for _, name := range slices.Sorted(maps.Keys(l.schemas)) {
		if schema, _ := l.schemas[name].(map[string]any); !l.done[name] {
			l.schemas[name] = l.named(name, schema)
		}
	}
	l.values()
	l.verbs(paths)
	l.services(paths)
	l.whole["components"] = map[string]any{"schemas": l.used()}
	out, err := json.MarshalIndent(l.whole, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return append(out, '\n'), nil
}

// lean makes the form.
type lean struct {
	// raw are the schemas as the document has them.
	whole, raw, schemas map[string]any
	// patched are the schemas of PATCH bodies, in which null is not the same as absent.
	patched map[string]bool
	// done are the schemas that have their form.
	done map[string]bool
	// others are the answers of operations that aren't generated.
	others []any
	lists  []valueList
}

// valueList is a place with a list of values.
type valueList struct {
	owner, member string
	values        []string
	schema        map[string]any
}

const (
	goType    = "x-go-type"
	goNoPoint = "x-go-type-skip-optional-pointer"
	// repeatableMark is on operations that take an Idempotency-Key.
	repeatableMark = "x-repeatable"
	// pagedMark is on operations that answer one page of a list: the type of its items.
	pagedMark = "x-paged"
)

// operations leaves what is sent and what a success answers, everything in its place.
func (l *lean) operations(paths map[string]any) {
	e := &exampler{whole: l.whole}
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		shared, _ := operations["parameters"].([]any)
		delete(operations, "parameters")
		for method, o := range operations {
			operation, _ := o.(map[string]any)
			if !l.operation(e, method, operation, shared) {
				l.others = append(l.others, e.answer(operation))
				delete(operations, method)
			}
		}
		if len(operations) == 0 {
			delete(paths, path)
		}
	}
}

// operation makes one of them lean, or reports that its bodies are no JSON.
func (l *lean) operation(e *exampler, method string, operation map[string]any, shared []any) bool {
	id, _ := operation["operationId"].(string)
	name := strings.ToUpper(id[:1]) + id[1:]
	own, _ := operation["parameters"].([]any)
	parameters := []any{}
	for _, p := range append(slices.Clone(shared), own...) {
		parameter := maps.Clone(e.resolve(p))
		if parameter["name"] == "Idempotency-Key" {
			operation[repeatableMark] = true
			continue
		}
		if schema, ok := parameter["schema"].(map[string]any); ok {
			parameter["schema"] = l.inner(name+"Params", parameter["name"].(string), schema, false) //nolint:forcetypeassert // parameters have names
		}
		parameters = append(parameters, parameter)
	}
	operation["parameters"] = parameters
	description, _ := operation["description"].(string)
	operation["description"] = strings.Join(strings.Fields(description), " ")
	if body := e.resolve(operation["requestBody"]); body != nil {
		schema := jsonSchema(body)
		if schema == nil {
			return false
		}
		if method == "patch" {
			l.patched[refName(schema)] = true
		}
		operation["requestBody"] = map[string]any{"required": body["required"] == true, "content": inJSON(l.body(name+"Request", schema))}
	}
	response := e.answer(operation)
	success := map[string]any{"description": response["description"]}
	if response["content"] != nil {
		schema := jsonSchema(response)
		if schema == nil {
			return false
		}
		success["content"] = inJSON(l.body(name+"Result", schema))
		l.markPaged(operation, parameters, e.resolve(schema))
	}
	operation["responses"] = map[string]any{"2XX": success}
	return true
}

// answer is what an operation answers when it has succeeded.
func (e *exampler) answer(operation map[string]any) map[string]any {
	responses, _ := operation["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if strings.HasPrefix(status, "2") {
			return e.resolve(responses[status])
		}
	}
	return nil
}

// markPaged marks an operation that answers pages of a list.
func (l *lean) markPaged(operation map[string]any, parameters []any, answer map[string]any) {
	properties, _ := answer["properties"].(map[string]any)
	items, _ := properties["items"].(map[string]any)
	if element, ok := items["items"].(map[string]any); ok && describes(parameters, "page") {
		id, _ := operation["operationId"].(string)
		operation[pagedMark] = map[string]any{
			"item": refName(element), "size": largestPage(parameters), "cursor": describes(parameters, "cursor"), "all": "All" + strings.TrimPrefix(id, "list"),
		}
	}
}

// largestPage is the most that page_size takes.
func largestPage(parameters []any) any {
	for _, p := range parameters {
		if parameter, _ := p.(map[string]any); parameter["name"] == "page_size" {
			schema, _ := parameter["schema"].(map[string]any)
			return schema["maximum"]
		}
	}
	return nil
}

// body gives an object that stands in an operation its name.
func (l *lean) body(name string, schema map[string]any) map[string]any {
	if schema["properties"] == nil && schema["allOf"] == nil {
		return l.inner(name, "", schema, false)
	}
	l.schemas[name] = schema
	return map[string]any{"$ref": schemaPrefix + name}
}

// named is a schema of components.
func (l *lean) named(name string, schema map[string]any) map[string]any {
	l.done[name] = true
	schema = maps.Clone(schema)
	if schema["enum"] != nil {
		return schema
	}
	patched := l.patched[name]
	if parts, ok := schema["allOf"].([]any); ok {
		for _, part := range parts {
			patched = patched || l.patched[refName(part)] && strings.HasSuffix(name, "Request")
		}
		schema = l.flat(schema)
	}
	if required, ok := schema["required"].([]any); ok {
		schema["required"] = slices.Clone(required)
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		if schema["additionalProperties"] == true {
			return map[string]any{"type": "object", "additionalProperties": true, "description": schema["description"]}
		}
		copied := map[string]any{}
		for member, p := range properties {
			property, _ := p.(map[string]any)
			must, _ := schema["required"].([]any)
			if types := typesOf(property); len(types) == 2 && types[1] == "null" && patched && slices.Contains(must, any(member)) {
				property = maps.Clone(property)
				property["type"] = types[0]
			}
			one := l.inner(name, member, property, patched)
			if (one["items"] != nil || one["additionalProperties"] != nil) && !slices.Contains(must, any(member)) {
				one["x-omitempty"], one["x-omitzero"] = false, true // an empty list is not the same as none
			}
			copied[member] = one
		}
		schema["properties"] = copied
		return schema
	}
	return l.inner(name, "", schema, false)
}

// flat joins the parts of a schema.
func (l *lean) flat(schema map[string]any) map[string]any {
	parts, _ := schema["allOf"].([]any)
	whole := map[string]any{"type": "object"}
	properties, required := map[string]any{}, []any{}
	for _, part := range parts {
		object, _ := part.(map[string]any)
		if name := refName(object); name != "" {
			object, _ = l.raw[name].(map[string]any)
		}
		if object["allOf"] != nil {
			object = l.flat(object)
		}
		more, _ := object["properties"].(map[string]any)
		maps.Copy(properties, more)
		must, _ := object["required"].([]any)
		required = append(required, must...)
	}
	whole["properties"], whole["required"] = properties, required
	return whole
}

// inner is the schema of a member, of a parameter or of an array's element: its objects get names. patched says that null clears it.
func (l *lean) inner(owner, member string, schema map[string]any, patched bool) map[string]any {
	if target, _ := l.schemas[refName(schema)].(map[string]any); target != nil && isPlain(target) {
		schema = target
	}
	schema = maps.Clone(schema)
	delete(schema, "example")
	delete(schema, "default")
	delete(schema, "readOnly")
	delete(schema, "writeOnly")
	if parts, ok := schema["allOf"].([]any); ok && len(parts) == 1 {
		return l.inner(owner, member, parts[0].(map[string]any), patched) //nolint:forcetypeassert // a schema
	}
	types := typesOf(schema)
	if kinds := slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name == "null" }); len(kinds) > 1 {
		return map[string]any{"description": schema["description"], goType: "any", goNoPoint: true}
	}
	if properties, ok := schema["properties"].(map[string]any); ok && slices.Contains(types, "object") {
		if schema["additionalProperties"] == true {
			delete(schema, "properties")
		} else {
			name := owner + goName(member)
			l.schemas[name] = l.named(name, map[string]any{"type": "object", "properties": properties, "required": schema["required"], "description": schema["description"]})
			schema = map[string]any{"oneOf": []any{map[string]any{"$ref": schemaPrefix + name}, map[string]any{"type": "null"}}}
			if !slices.Contains(types, "null") {
				schema = map[string]any{"$ref": schemaPrefix + name}
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if element, ok := schema[key].(map[string]any); ok {
			schema[key] = l.inner(owner, strings.TrimSuffix(member, "s"), element, false)
		}
	}
	if values, ok := schema["enum"].([]any); ok {
		l.note(owner, member, values, schema)
	}
	if null := slices.Contains(types, "null") || schema["oneOf"] != nil; null && patched {
		schema[goType], schema[goNoPoint] = "nullable.Nullable["+goTypeOf(schema)+"]", true
	}
	return schema
}

// isPlain tells of a schema that needs no type of its own.
func isPlain(schema map[string]any) bool {
	if schema["additionalProperties"] == true {
		return true
	}
	for _, key := range []string{"properties", "allOf", "oneOf", "enum", "items", mayGrow} {
		if schema[key] != nil {
			return false
		}
	}
	return true
}

// note keeps a list of values until all are known.
func (l *lean) note(owner, member string, values []any, schema map[string]any) {
	delete(schema, "enum")
	var texts []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	if slices.Sort(texts); len(texts) > 1 {
		l.lists = append(l.lists, valueList{strings.TrimSuffix(owner, "Params"), member, texts, schema})
	}
}

// values gives lists of values names: that of the member where it has one list everywhere, or those that are parts of one; elsewhere
// with the shortest name of an object that has the list.
func (l *lean) values() {
	slices.SortFunc(l.lists, func(a, b valueList) int {
		return strings.Compare(fmt.Sprintf("%03d%s", len(a.owner), a.owner), fmt.Sprintf("%03d%s", len(b.owner), b.owner))
	})
	widest := map[string][]string{}
	for _, list := range l.lists {
		if len(list.values) > len(widest[list.member]) {
			widest[list.member] = list.values
		}
	}
	apart, names := map[string]bool{}, map[string]string{}
	for _, list := range l.lists {
		for _, v := range list.values {
			apart[list.member] = apart[list.member] || !slices.Contains(widest[list.member], v)
		}
	}
	for _, list := range l.lists {
		name, values := goName(list.member), widest[list.member]
		if apart[list.member] || slices.Contains(tooShort(), list.member) || l.schemas[name] != nil && names[list.member] == "" {
			key := list.member + fmt.Sprint(list.values)
			if names[key] == "" {
				names[key] = list.owner + name
			}
			name, values = names[key], list.values
		} else {
			names[list.member] = name
		}
		l.schemas[name] = map[string]any{"type": "string", "enum": values}
		if given, ok := list.schema[goType].(string); ok {
			list.schema[goType] = strings.Replace(given, "[string]", "["+name+"]", 1)
		} else {
			list.schema[goType] = name
		}
	}
}

// tooShort are names of members that say too little for a type of all.
func tooShort() []string { return []string{"action", "check", "class", "target", "type"} }

// verbs has the body of the control operation be any of the verbs, each of which knows its event.
func (l *lean) verbs(paths map[string]any) {
	request, _ := l.schemas["ControlRequest"].(map[string]any)
	discriminator, _ := request["discriminator"].(map[string]any)
	mapping, _ := discriminator["mapping"].(map[string]any)
	verbs := map[string]any{}
	for event, ref := range mapping {
		name := refName(map[string]any{"$ref": ref})
		verbs[event] = name
		verb, _ := l.schemas[name].(map[string]any)
		properties, _ := verb["properties"].(map[string]any)
		delete(properties, "event")
		required, _ := verb["required"].([]any)
		verb["required"] = slices.DeleteFunc(required, func(name any) bool { return name == "event" })
		l.others = append(l.others, map[string]any{"$ref": ref})
	}
	l.schemas["ControlRequest"] = map[string]any{"type": "object", goType: "Verb"}
	visit(paths, func(object map[string]any) {
		if object["operationId"] == "controlCall" {
			object["x-verbs"] = verbs
		}
	})
}

// services marks one operation of each tag with the tag's description: the client has a type for it.
func (l *lean) services(paths map[string]any) {
	first := map[any]map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		operations, _ := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			operation, _ := operations[method].(map[string]any)
			tags, _ := operation["tags"].([]any)
			if first[tags[0]] == nil {
				first[tags[0]] = operation
			}
		}
	}
	tags, _ := l.whole["tags"].([]any)
	for _, t := range tags {
		tag, _ := t.(map[string]any)
		if operation := first[tag["name"]]; operation != nil {
			operation["x-service"] = tag["description"]
		}
	}
}

// used has the schemas that operations use, and the catalogue of errors.
func (l *lean) used() map[string]any {
	const catalogue = "ErrorCode"
	code, _ := l.schemas[catalogue].(map[string]any)
	used := map[string]any{catalogue: map[string]any{"type": "string", "description": code["description"], "enum": code[mayGrow]}}
	var reach func(value any)
	need := func(name string) {
		if schema, ok := l.schemas[name]; ok && used[name] == nil {
			used[name] = schema
			reach(schema)
		}
	}
	reach = func(value any) {
		visit(value, func(object map[string]any) {
			need(refName(object))
			given, _ := object[goType].(string)
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(given, -1) {
				need(name)
			}
		})
	}
	reach(l.whole["paths"])
	reach(l.others)
	return used
}

const schemaPrefix = "#/components/schemas/"

// refName is the name of the schema that is referred to, or empty.
func refName(value any) string {
	object, _ := value.(map[string]any)
	ref, _ := object["$ref"].(string)
	return strings.TrimPrefix(ref, schemaPrefix)
}

func inJSON(schema map[string]any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}

func jsonSchema(body map[string]any) map[string]any {
	content, _ := body["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	return schema
}

// goTypeOf is the Go type of a schema without its null.
func goTypeOf(schema map[string]any) string {
	if choices, ok := schema["oneOf"].([]any); ok {
		return refName(choices[0])
	}
	types := typesOf(schema)
	switch {
	case schema["format"] == "uuid":
		return "uuid.UUID"
	case schema["format"] == "date-time":
		return "time.Time"
	case slices.Contains(types, "integer"):
		return "int"
	case slices.Contains(types, "number"):
		return "float64"
	case slices.Contains(types, "boolean"):
		return "bool"
	case slices.Contains(types, "object"):
		return "map[string]any"
	default:
		return "string"
	}
}

// goName is a member's name as Go writes it.
func goName(member string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(member, "_") {
		switch word {
		case "ai", "id", "url", "amd", "crm", "sip":
			word = strings.ToUpper(word)
		case "":
			continue
		}
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}
