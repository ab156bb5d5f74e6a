package main

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsBounded(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 2000, 1 << 20: 2000, 64 << 20: 400, 256 << 20: 100, 8 << 30: 100} {
		require.Equal(t, want, gcPercent(live, garbageRoom), "%d MiB in use", live>>20)
	}
	require.Equal(t, 160, gcPercent(20<<20, 32<<20), "of a container of 256 MiB")
	require.Equal(t, 200, gcPercent(0, 8<<20), "of one of 64 MiB, as it starts")
}

// What a container, or a unit of systemd's, may use bounds the garbage: more than that ends the process.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"none":            {nil, math.MaxUint64},
		"a container":     {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20},
		"without a limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, math.MaxUint64},
		"of one above": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/ringmaster.service\n", "sys/fs/cgroup/system.slice/ringmaster.service/memory.max": "2147483648\n",
			"sys/fs/cgroup/system.slice/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:devices:/x\n4:memory:/docker/0a\n0::/\n", "sys/fs/cgroup/memory/docker/0a/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 512 << 20},
		"of another namespace": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/0a\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		"broken": {map[string]string{"proc/self/cgroup": "0::\n::\nx\n0::/../..\n"}, math.MaxUint64},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		require.Equal(t, c.want, memoryLimit(root), name)
	}
}
