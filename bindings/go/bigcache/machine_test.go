package bigcache

import (
	"math"
	"testing"
	"testing/fstest"

	"larder.example/larder/internal/check"
)

func TestCgroupBytes(t *testing.T) {
	const none = math.MaxInt64
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {nil, none},
		"version 2": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2097152\n",
		}, 2 << 20},
		"version 2, limit of an ancestor": {map[string]string{
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
		"version 1, path of the host": {map[string]string{
			"proc/self/cgroup":                           "4:hugetlb,memory:/docker/0123\n0::/system.slice\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "5242880\n",
		}, 5 << 20},
		"invalid": {map[string]string{
			"proc/self/cgroup":         "nonsense\n0::/../..\n",
			"sys/fs/cgroup/memory.max": "-5 or so\n",
		}, none},
	} {
		system := fstest.MapFS{}
		for file, text := range test.files {
			system[file] = &fstest.MapFile{Data: []byte(text)}
		}
		check.Equal(t, name+": cgroupBytes", cgroupBytes(system), test.want)
	}
}
