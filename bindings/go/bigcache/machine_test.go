package bigcache

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestMemoryLimitsOfControlGroups(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {nil, none},
		"version 2": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2097152\n",
		}, 2 << 20},
		"version 2, the limit is around it": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max":   "1048576\n",
		}, 1 << 20},
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "3145728\n",
		}, 3 << 20},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n",
		}, none},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4194304\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 4 << 20},
		"version 1, the path is the host's": {map[string]string{
			"proc/self/cgroup":                           "4:hugetlb,memory:/docker/0123\n0::/system.slice\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "5242880\n",
		}, 5 << 20},
		"nonsense": {map[string]string{
			"proc/self/cgroup":         "nonsense\n0::/../..\n",
			"sys/fs/cgroup/memory.max": "-5 or so\n",
		}, none},
	} {
		system := fstest.MapFS{}
		for file, text := range c.files {
			system[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if found := cgroupBytes(system); found != c.want {
			t.Errorf("%s: %d; expected %d", name, found, c.want)
		}
	}
}

func TestACacheWithoutLimitStaysBelowThatOfItsControlGroup(t *testing.T) {
	config := DefaultConfig(0)
	for _, mebibytes := range []int64{16, 100, 4096} {
		options := memoryOptionsWithin(&config, mebibytes*mebibyte)
		if options.MemoryMax > mebibytes*mebibyte/2 || options.Memory > options.MemoryMax || options.ItemMax > options.Memory {
			t.Errorf("of %d MiB it takes %d to %d", mebibytes, options.Memory, options.MemoryMax)
		}
	}
}
