package larder

import (
	"errors"
	"fmt"

	"larder.example/larder/internal/engine"
)

// Errors of this package. Test for them with [errors.Is]. Errors of package larder/shared match
// them.
var (
	// ErrNotFound means that the item does not exist, or that it has expired.
	ErrNotFound = errors.New("larder: there is no such item")
	// ErrChanged means that the item has changed since its token was read. Read it again.
	ErrChanged = errors.New("larder: the item has changed since its token was read")
	// ErrKey means that a key is empty or longer than 250 bytes.
	ErrKey = errors.New("larder: invalid key: expected 1 to 250 bytes")
	// ErrTooLarge means that the item is larger than [Options.ItemMax], or than the server accepts.
	ErrTooLarge = errors.New("larder: the item is too large")
	// ErrNoMemory means that the cache has no memory left for the item. A cache in the process evicts
	// other items to store it, so this happens only while callbacks of [Cache.View] hold too much of
	// the memory.
	ErrNoMemory = errors.New("larder: there is no memory for the item")
	// ErrNotANumber means that the value is not a decimal number of 64 bits.
	ErrNotANumber = errors.New("larder: the value is not a decimal number of 64 bits")
	// ErrNoTokens means that the cache was opened without [Options.CAS].
	ErrNoTokens = errors.New("larder: the cache has no tokens: set Options.CAS")
	// ErrDamaged means that [Cache.Load] or [Cache.LoadFile] has read data that [Cache.Save] did not
	// write, or that has changed since.
	ErrDamaged = errors.New("larder: the saved cache is damaged")
	// ErrNotOpened means that the cache could not be opened.
	ErrNotOpened = errors.New("larder: the cache could not be opened")
	// ErrClosed means that the cache is closed.
	ErrClosed = errors.New("larder: the cache is closed")
	// ErrInvalid means that an argument is out of range.
	ErrInvalid = errors.New("larder: invalid argument")

	// ErrRecursive means that a loader requests the key that it is loading, or a key whose loader
	// waits for that key. Neither load would ever end. The cache can detect this only if the loader
	// passes its own context to GetOrLoad.
	ErrRecursive = errors.New("larder: recursive load: the loader requests the key that it is loading, or a key whose load waits for it")
	// ErrLoadTimeout means that a load exceeded the time limit of loads.
	ErrLoadTimeout = errors.New("larder: the load exceeded Options.LoadTimeout")
)

// PanicError is the error that all callers of a load receive if its loader panics.
type PanicError struct {
	// Value is the value of the panic; nil if the loader called [runtime.Goexit].
	Value any
	// Stack is the stack trace of the panic.
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("larder: the loader called runtime.Goexit\n\n%s", e.Stack)
	}
	return fmt.Sprintf("larder: the loader panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// failure converts the error that the engine returned for a write.
func (c *Cache) failure(err error, key string, valueBytes int) error {
	if errors.Is(err, engine.ErrMemory) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	switch err {
	case nil:
		return nil
	case engine.ErrClosed:
		return ErrClosed
	case engine.ErrBadKey:
		return keyError(key)
	case engine.ErrTooLarge:
		return fmt.Errorf("%w: key and value have %d bytes, at most %d fit: raise Options.ItemMax or Options.Memory",
			ErrTooLarge, len(key)+valueBytes, c.core().ItemMax())
	case engine.ErrNoSpace:
		return fmt.Errorf("%w: callbacks of View hold too much of %d bytes: end them sooner or raise Options.Memory",
			ErrNoMemory, c.core().Stats().MemoryBytes)
	case engine.ErrNotFound:
		return ErrNotFound
	case engine.ErrExists:
		return ErrChanged
	case engine.ErrNotNumber:
		return ErrNotANumber
	case engine.ErrNoTokens:
		return ErrNoTokens
	}
	return err
}

func keyError(key string) error {
	return fmt.Errorf("%w, got %d: use a digest of a long key", ErrKey, len(key))
}

// isKey returns true if a key has a valid length.
func isKey(key string) bool { return len(key) > 0 && len(key) <= engine.KeyBytesMax }

// condition converts the error of a conditional change. It returns false if the condition does not
// hold.
func (c *Cache) condition(err error, key string, valueBytes int) (bool, error) {
	if err == engine.ErrNotFound || err == engine.ErrNotStored {
		return false, nil
	}
	return err == nil, c.failure(err, key, valueBytes)
}
