package bigcache

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unknownBytes is used if the system does not return the memory of the machine.
const unknownBytes = 1 << 30

// cgroupBytes returns the lowest memory limit of this process's control groups and their ancestors,
// version 1 or 2; math.MaxInt64 if there is none. The file system is rooted at /.
func cgroupBytes(system fs.FS) int64 {
	least := int64(math.MaxInt64)
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		// "0::/path" for version 2, "4:cpu,memory:/path" for version 1.
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path may be the host's, of which only the root, the mount, exists.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			least = min(least, fileLimit(system, path.Join(mount, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return least
}

// fileLimit returns the limit in a file; math.MaxInt64 if there is no file or it contains "max".
func fileLimit(system fs.FS, file string) int64 {
	text, err := fs.ReadFile(system, file)
	if err != nil {
		return math.MaxInt64
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return math.MaxInt64
	}
	return limit
}
