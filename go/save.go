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
// each part. Other goroutines may use the cache during the call. If they change an item, Save
// writes a state that the item had at some time during the call. Save does not write tokens, and
// skips items that a client of package server has marked stale.
func (c *Cache) Save(to io.Writer) error {
	err := c.core().Save(to)
	runtime.KeepAlive(c)
	if errors.Is(err, engine.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Load reads the items that [Cache.Save] has written, adds them to the cache and returns their
// number. It skips items that have expired since. If some items do not fit, it stores the rest and
// returns an [*OmittedError], which matches [ErrTooLarge]. If the data is damaged, it stores the
// items before the damage and returns [ErrDamaged]. Load reads up to the end of the saved cache and
// not further, so a stream may continue with something else, such as another saved cache. A
// buffered reader is not necessary, because most reads of Load are of 64 KiB.
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

// OmittedError means that Load has omitted some items of a saved cache, because the cache that
// loads them has less memory or a lower [Options.ItemMax] than the saved one. It has stored all
// other items.
type OmittedError struct {
	// Items is the number of items that do not fit.
	Items int
	// Key is the key of the first omitted item, and Bytes is the sum of the lengths of its key and its
	// value.
	Key   string
	Bytes int
	// ItemMax is the largest sum of these lengths that the cache accepts.
	ItemMax int
	reason  error
}

func (e *OmittedError) Error() string {
	return fmt.Sprintf("larder: %d items of the saved cache do not fit: the first, %q, has %d bytes, and this cache takes items of up to %d: %v",
		e.Items, e.Key, e.Bytes, e.ItemMax, e.reason)
}

// Unwrap returns the reason why the first item was not stored: [ErrTooLarge] or [ErrNoMemory].
func (e *OmittedError) Unwrap() error { return e.reason }

// SaveFile is like [Cache.Save], but writes to a file. It writes a temporary file in the same
// folder, syncs it to the disk and renames it: after a crash the file has the old contents or the
// new contents. A new file has mode 0600; an existing one keeps its mode, and its owner where the
// system allows that. If path is a symbolic link, SaveFile replaces the file that the link points
// to, and keeps the link. If path is a pipe or a device, SaveFile writes directly into it.
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

// followLinks returns the path that a symbolic link finally points to. It works even if no file
// exists at that path, for which filepath.EvalSymlinks returns an error.
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

// replaceFile saves into a new file, and renames it to path. The argument replaced is the existing
// file at path, or nil.
func (c *Cache) replaceFile(path string, replaced fs.FileInfo) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	isSaved := false
	// Clean up also after a panic.
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
		// Only root may give a file to another owner. The mode is set after the owner, because a change
		// of the owner changes the mode.
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

// LoadFile is like [Cache.Load], but reads from a file. If the file does not exist, the error
// matches [io/fs.ErrNotExist]. A file that continues after the end of the saved cache is damaged:
// LoadFile stores the items and returns [ErrDamaged].
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

// atEnd returns an error if the reader is not at its end.
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
