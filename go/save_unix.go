//go:build unix

package larder

import (
	"io/fs"
	"os"
	"syscall"
)

// giveTo gives a file the owner and the group of another file, as far as the system allows it.
func giveTo(file *os.File, other fs.FileInfo) {
	owned, ok := other.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	if file.Chown(int(owned.Uid), int(owned.Gid)) != nil {
		_ = file.Chown(-1, int(owned.Gid))
	}
}
