package bigcache

import (
	"os"
	"syscall"
)

// machineBytes is how much memory this process may use: the machine's, or what its control groups allow.
func machineBytes() int64 {
	limit := cgroupBytes(os.DirFS("/"))
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return min(unknownBytes, limit)
	}
	return min(int64(info.Totalram)*int64(info.Unit), limit)
}

// unknownBytes is taken for the machine's memory where the system does not tell it.
const unknownBytes = 1 << 30
