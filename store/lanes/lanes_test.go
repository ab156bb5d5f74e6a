package lanes_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/lanes"
)

// What comes while a lane is busy is done together, up to a bound, in the order in which it came; another lane waits for none of it.
func TestWhatWaitsIsDoneTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lanes.Lanes[string, int]
		var done [][]int
		var mu sync.Mutex // guards done
		release := make(chan struct{})
		do := func(all []int) {
			mu.Lock()
			done = append(done, slices.Clone(all))
			mu.Unlock()
			<-release
		}
		bounds := lanes.Bounds{Running: 1, Together: 3}
		for n := range 6 {
			go func() { assert.NoError(t, l.Do(t.Context(), "a", bounds, n, do)) }()
			synctest.Wait()
		}
		go func() { assert.NoError(t, l.Do(t.Context(), "b", bounds, 100, do)) }()
		synctest.Wait()
		require.Equal(t, [][]int{{0}, {100}}, done)
		gone, leave := context.WithCancel(t.Context())
		go func() { assert.ErrorIs(t, l.Do(gone, "a", bounds, 6, do), context.Canceled) }()
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		synctest.Wait()
		require.Equal(t, [][]int{{0}, {100}, {1, 2, 3}, {4, 5}}, done)
		require.NoError(t, l.Do(t.Context(), "a", bounds, 7, do))
		require.Equal(t, []int{7}, done[len(done)-1], "alone again")
	})
}

// As many as may be under way don't wait for one another, and a panic of one leaves the lane to others.
func TestSeveralAreUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lanes.Lanes[int, int]
		bounds := lanes.Bounds{Running: 2, Together: 10}
		var most, now int
		var mu sync.Mutex // guards both
		release := make(chan struct{})
		do := func(all []int) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-release
			mu.Lock()
			now--
			mu.Unlock()
			if all[0] == 0 {
				panic("of one")
			}
		}
		for n := range 8 {
			go func() {
				defer func() { assert.Equal(t, n == 0, recover() != nil) }()
				assert.NoError(t, l.Do(t.Context(), 1, bounds, n, do))
			}()
			synctest.Wait()
		}
		require.Equal(t, 2, now)
		close(release)
		synctest.Wait()
		require.Equal(t, 2, most)
		require.NoError(t, l.Do(t.Context(), 1, bounds, 9, do))
	})
}

// Rows that are asked for while others are read are read at once, each id once; what is not among them, and all when the statement fails, is read
// alone.
func TestRowsAreReadTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads lanes.Reads[string, int, string]
		release, fails := make(chan struct{}), false
		var mu sync.Mutex // guards both
		var alone []int
		var together [][]int
		one := func(id int) (string, error) {
			<-release
			mu.Lock()
			defer mu.Unlock()
			alone = append(alone, id)
			if id == 9 {
				return "", errMissing
			}
			return "row " + strconv.Itoa(id), nil
		}
		many := func(ids []int) (map[int]string, error) {
			mu.Lock()
			defer mu.Unlock()
			together = append(together, ids)
			if fails {
				return nil, errMissing
			}
			rows := map[int]string{}
			for _, id := range ids {
				if id != 9 {
					rows[id] = "row " + strconv.Itoa(id)
				}
			}
			return rows, nil
		}
		ask := func(ids ...int) {
			for _, id := range ids {
				go func() {
					row, err := reads.One(t.Context(), "a", id, one, many)
					if id == 9 {
						assert.ErrorIs(t, err, errMissing)
						return
					}
					assert.NoError(t, err)
					assert.Equal(t, "row "+strconv.Itoa(id), row)
				}()
				synctest.Wait()
			}
		}
		ask(1, 2, 3, 4, 3, 9)
		close(release)
		synctest.Wait()
		require.Equal(t, [][]int{{3, 4, 9}}, together)
		require.Equal(t, []int{1, 2, 9}, slices.Sorted(slices.Values(alone)))

		alone, together, fails, release = nil, nil, true, make(chan struct{})
		ask(1, 2, 3, 4)
		close(release)
		synctest.Wait()
		require.Equal(t, [][]int{{3, 4}}, together)
		require.Equal(t, []int{1, 2, 3, 4}, slices.Sorted(slices.Values(alone)))
	})
}

var errMissing = errors.New("missing")
