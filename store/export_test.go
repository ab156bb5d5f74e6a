package store

// SealedColumns names the columns that a rotation seals anew.
func SealedColumns() (names []string) {
	for _, c := range sealedColumns() {
		names = append(names, c.table+"."+c.column)
	}
	return names
}

// SweepLock is the advisory lock of the process that sweeps.
const SweepLock int64 = sweepLock
