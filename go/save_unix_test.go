//go:build unix

package larder

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"larder.example/larder/internal/check"
)

// wantLoaded fails the test if a file does not contain the saved item.
func wantLoaded(t *testing.T, path string) {
	t.Helper()
	loaded := openCache(t, Options{})
	check.Equal(t, "items of "+path, must[int](t)(loaded.LoadFile(path)), 1)
	wantValue(t, loaded, "k", "v")
}

func TestSaveFileKeepsTheModeOfItsTarget(t *testing.T) {
	cache, folder := openCache(t, Options{}), t.TempDir()
	set(t, cache, "k", "v")
	path := filepath.Join(folder, "cache")
	check.NoError(t, cache.SaveFile(path))
	check.Equal(t, "mode of a new file", must[fs.FileInfo](t)(os.Stat(path)).Mode(), 0o600)
	for _, mode := range []fs.FileMode{0o640, 0o444, 0o666} {
		check.NoError(t, os.Chmod(path, mode))
		check.NoError(t, cache.SaveFile(path))
		check.Equal(t, "mode of a replaced file", must[fs.FileInfo](t)(os.Stat(path)).Mode(), mode)
	}
	if os.Getuid() == 0 {
		check.NoError(t, os.Chown(path, 12, 34))
		check.NoError(t, cache.SaveFile(path))
		owned := must[fs.FileInfo](t)(os.Stat(path)).Sys().(*syscall.Stat_t)
		check.Equal(t, "owner and group of a replaced file", [2]int{int(owned.Uid), int(owned.Gid)}, [2]int{12, 34})
	}
	wantLoaded(t, path)
	check.Equal(t, "files in the folder", len(must[[]os.DirEntry](t)(os.ReadDir(folder))), 1)
}

func TestSaveFileReplacesWhatASymbolicLinkNames(t *testing.T) {
	cache, folder := openCache(t, Options{}), t.TempDir()
	set(t, cache, "k", "v")
	check.NoError(t, os.Mkdir(filepath.Join(folder, "disk"), 0o700))
	// The first link points to a second link, which points to a file that does not exist yet.
	path, named := filepath.Join(folder, "cache"), filepath.Join(folder, "disk", "saved")
	check.NoError(t, os.Symlink("other", path))
	check.NoError(t, os.Symlink(named, filepath.Join(folder, "other")))
	for range 2 {
		check.NoError(t, cache.SaveFile(path))
		for _, link := range []string{path, filepath.Join(folder, "other")} {
			if info := must[fs.FileInfo](t)(os.Lstat(link)); info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("%s has mode %v, want a symbolic link", link, info.Mode())
			}
		}
		wantLoaded(t, named)
	}
	ring := filepath.Join(folder, "ring")
	check.NoError(t, os.Symlink("ring", ring))
	if err := cache.SaveFile(ring); err == nil {
		t.Error("SaveFile to a link that names itself: no error, want one")
	}
}

func TestSaveFileWritesIntoAPipe(t *testing.T) {
	cache, loaded := openCache(t, Options{}), openCache(t, Options{})
	set(t, cache, "k", "v")
	pipe := filepath.Join(t.TempDir(), "pipe")
	check.NoError(t, syscall.Mkfifo(pipe, 0o600))
	saved := make(chan error)
	go func() { saved <- cache.SaveFile(pipe) }()
	check.Equal(t, "LoadFile", must[int](t)(loaded.LoadFile(pipe)), 1)
	check.NoError(t, <-saved)
	wantValue(t, loaded, "k", "v")
	if info := must[fs.FileInfo](t)(os.Lstat(pipe)); info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("after SaveFile the pipe has mode %v", info.Mode())
	}
	if err := cache.SaveFile(t.TempDir()); err == nil {
		t.Error("SaveFile to a folder: no error, want one")
	}
}
