package larder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"larder.example/larder/internal/engine"
)

// Save writes all items, with their flags and the time at which they expire, and a checksum for
// each part. Other goroutines may use the cache meanwhile: of the items that they change, Save
// writes the state at some time during the call. Tokens are not saved, nor are items that a client
// of package server has marked stale.
func (c *Cache) Save(to io.Writer) error {
	err := c.core().Save(to)
	runtime.KeepAlive(c)
	if errors.Is(err, engine.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Load stores the items that [Cache.Save] has written, in addition to those in the cache, and
// returns their number. It leaves out items that have expired since. If others do not fit, it
// stores the rest and returns an [*OmittedError], which matches [ErrTooLarge]. If the data is
// damaged, it stores the items before the damage and returns [ErrDamaged]. Load reads up to the end
// of the saved cache and not further, so that a stream may have something after it, such as another
// saved cache. It needs no buffered reader: most of its reads are of 64 KiB.
func (c *Cache) Load(from io.Reader) (items int, err error) {
	c.flights().ForgetPrefix("")
	loaded, err := c.core().Load(from)
	runtime.KeepAlive(c)
	switch {
	case errors.Is(err, engine.ErrClosed):
		err = ErrClosed
	case errors.Is(err, engine.ErrDamaged):
		err = fmt.Errorf("%w: %s", ErrDamaged, strings.TrimPrefix(err.Error(), engine.ErrDamaged.Error()+": "))
	case err == nil && loaded.Omitted > 0:
		err = &OmittedError{
			Items: loaded.Omitted, Key: loaded.Key, Bytes: loaded.Bytes, ItemMax: c.core().ItemMax(),
			reason: c.failure(loaded.Reason, loaded.Key, loaded.Bytes-len(loaded.Key)),
		}
	}
	return loaded.Stored, err
}

// OmittedError means that some items of a saved cache do not fit in the cache that loads it: it has
// less memory or a lower [Options.ItemMax]. All others were stored.
type OmittedError struct {
	// Items is the number of these items.
	Items int
	// Key is that of the first one, and Bytes the sum of the lengths of its key and its value.
	Key   string
	Bytes int
	// ItemMax is the largest such sum that the cache takes.
	ItemMax int
	reason  error
}

func (e *OmittedError) Error() string {
	return fmt.Sprintf("larder: %d items of the saved cache do not fit: the first, %q, has %d bytes, and this cache takes items of up to %d: %v",
		e.Items, e.Key, e.Bytes, e.ItemMax, e.reason)
}

// Unwrap returns the error of the store of the first item: [ErrTooLarge], or [ErrNoMemory].
func (e *OmittedError) Unwrap() error { return e.reason }

// SaveFile is [Cache.Save] into a file. It writes a temporary file in the same folder, syncs it to
// the disk and renames it: after a crash the file has the old contents or the new ones. A new file
// has mode 0600; an existing one keeps its mode, and its owner where the system allows that.
// SaveFile replaces the file that a symbolic link names, and keeps the link. It writes directly
// into a pipe or a device.
func (c *Cache) SaveFile(path string) error {
	if err := c.saveFile(path); err != nil {
		return fmt.Errorf("larder: cannot save into %s: %w", path, err)
	}
	return nil
}

func (c *Cache) saveFile(path string) error {
	path, err := followLinks(path)
	if err != nil {
		return err
	}
	replaced, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.replaceFile(path, nil)
	case err != nil:
		return err
	case replaced.Mode().IsRegular():
		return c.replaceFile(path, replaced)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(c.Save(file), file.Close())
}

// linksMax is the number of symbolic links that Linux follows.
const linksMax = 40

// followLinks returns the path of what a symbolic link names, which may not exist.
func followLinks(path string) (string, error) {
	for range linksMax {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		named, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(named) {
			named = filepath.Join(filepath.Dir(path), named)
		}
		path = named
	}
	return "", fmt.Errorf("more than %d symbolic links", linksMax)
}

// replaceFile saves into a new file, and renames it to path. replaced is the file that is there, or
// nil.
func (c *Cache) replaceFile(path string, replaced fs.FileInfo) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	isSaved := false
	// Also after a panic.
	defer func() {
		if !isSaved {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	if err = c.Save(file); err != nil {
		return err
	}
	if replaced != nil {
		// Only root may give a file to another owner. The mode follows: a change of the owner
		// changes it.
		giveTo(file, replaced)
		if err = file.Chmod(replaced.Mode()); err != nil {
			return err
		}
	}
	if err = file.Sync(); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	isSaved = true
	syncFolder(filepath.Dir(path))
	return nil
}

// syncFolder makes a rename durable, on systems where folders can be synced.
func syncFolder(path string) {
	if folder, err := os.Open(path); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
}

// LoadFile is [Cache.Load] from a file. If there is no file, the error matches [io/fs.ErrNotExist].
// A file that continues after the end of the saved cache is damaged: LoadFile stores the items and
// returns [ErrDamaged].
func (c *Cache) LoadFile(path string) (items int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("larder: cannot load: %w", err)
	}
	defer file.Close()
	var omitted *OmittedError
	items, err = c.Load(file)
	if err == nil || errors.As(err, &omitted) {
		err = errors.Join(atEnd(file), err)
	}
	if err != nil {
		return items, fmt.Errorf("larder: cannot load %s: %w", path, err)
	}
	return items, nil
}

// atEnd returns an error if there is something to read.
func atEnd(from io.Reader) error {
	switch _, err := io.ReadFull(from, make([]byte, 1)); err {
	case nil:
		return fmt.Errorf("%w: bytes follow the end of the saved cache", ErrDamaged)
	case io.EOF:
		return nil
	default:
		return err
	}
}
