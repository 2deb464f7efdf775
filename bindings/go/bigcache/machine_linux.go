package bigcache

import (
	"os"
	"syscall"
)

// machineBytes returns the memory of the machine, or the limit of the process's control groups if
// that is lower.
func machineBytes() int64 {
	limit := cgroupBytes(os.DirFS("/"))
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return min(unknownBytes, limit)
	}
	return min(int64(info.Totalram)*int64(info.Unit), limit)
}
