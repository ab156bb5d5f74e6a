package lanes

import "context"

// Reads are rows that are read one by one, by an id. The zero value is ready.
type Reads[K, ID comparable, R any] struct {
	lanes Lanes[K, *read[ID, R]]
}

// read is a row that is being read.
type read[ID comparable, R any] struct {
	id    ID
	row   R
	found bool
}

// bounds have some statements of a lane under way at a time: a slow one holds up what waits for it.
func bounds() Bounds { return Bounds{Running: 2, Together: 50} } //nolint:mnd // see above

// One reads a row: alone when it comes alone, and together with those that come while others of its lane are read. What isn't among those that
// were read together, or could not be read with them, is read alone: its error is its own. Rows may go to several who asked for them.
func (r *Reads[K, ID, R]) One(
	ctx context.Context, key K, id ID, alone func(ID) (R, error), together func([]ID) (map[ID]R, error),
) (row R, err error) {
	own, single := &read[ID, R]{id: id}, false
	waited := r.lanes.Do(ctx, key, bounds(), own, func(batch []*read[ID, R]) {
		if single = len(batch) == 1; single {
			row, err = alone(id)
			return
		}
		ids, seen := make([]ID, 0, len(batch)), make(map[ID]bool, len(batch))
		for _, one := range batch {
			if !seen[one.id] {
				seen[one.id] = true
				ids = append(ids, one.id)
			}
		}
		rows, failed := together(ids)
		if failed != nil {
			return // each finds out by itself
		}
		for _, one := range batch {
			one.row, one.found = rows[one.id]
		}
	})
	switch {
	case waited != nil:
		return row, waited
	case single:
		return row, err
	case own.found:
		return own.row, nil
	default:
		return alone(id)
	}
}
