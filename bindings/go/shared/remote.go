//go:build linux && cgo

package shared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"larder/client"
)

// remote is the cache of a server, through package client. A goroutine that waits for a response
// does not occupy an OS thread.
type remote struct {
	client *client.Client
	socket string
}

// The maximum number of open connections to a server. Further goroutines wait for a free one.
const connectionsMax = 64

// Connect returns the cache of a larderd, or of any memcached that supports the meta protocol, at a
// unix socket. It reads hits in the server's memory if larderd runs with --local-readers, and sends
// all other requests through the socket. Each waits up to timeout for a response; 0 means five
// seconds. Operations that the protocol lacks return [ErrUnsupported].
func Connect(socket string, timeout time.Duration) (*Cache, error) {
	path, err := filepath.Abs(socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	server, err := client.NewWithOptions(client.Options{
		Servers: []string{path}, Protocol: client.ProtocolMeta, Timeout: timeout, BackoffMin: -1,
		MaxIdleConns: connectionsMax, MaxConns: connectionsMax,
	})
	if err == nil {
		err = server.Ping()
	}
	if err != nil {
		if server != nil {
			_ = server.Close()
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return newCache(nil, &remote{server, path}, Options{})
}

// get returns a value, never nil, and its metadata.
func (r *remote) get(ctx context.Context, key string) ([]byte, Item, error) {
	found, details, err := r.client.GetDetails(ctx, key)
	if err != nil {
		return nil, Item{}, r.wrapError(ctx, err)
	}
	item := Item{CAS: found.CasID, TTL: details.TTL, Flags: found.Flags, Stale: details.Stale, Local: details.Local}
	return append([]byte{}, found.Value...), item, nil
}

func (r *remote) getMany(ctx context.Context, keys []string) (map[string]*client.Item, error) {
	found, err := r.client.GetMultiContext(ctx, keys)
	return found, r.wrapError(ctx, err)
}

// store calls one of the client's store methods, and reports whether its condition holds.
func (r *remote) store(ctx context.Context, op func(context.Context, *client.Item) error, key string, value []byte,
	ttl time.Duration) (bool, error) {
	return r.applied(ctx, op(ctx, &client.Item{Key: key, Value: value, Expiration: expiration(ttl)}))
}

func (r *remote) swap(ctx context.Context, key string, value []byte, ttl time.Duration, cas uint64) (uint64, error) {
	item := &client.Item{Key: key, Value: value, Expiration: expiration(ttl), CasID: cas}
	next, err := r.client.Swap(ctx, item)
	return next, r.wrapError(ctx, err)
}

// endLoad stores a loaded value if the key still has the item of the load's start, or none.
func (r *remote) endLoad(ctx context.Context, key string, b *loadBasis, value []byte, ttl time.Duration) error {
	if b.found && b.item.CAS != 0 {
		_, err := r.swap(ctx, key, value, ttl, b.item.CAS)
		return err
	}
	op := r.client.AddContext
	if b.found {
		// A server without tokens cannot compare.
		op = r.client.ReplaceContext
	}
	_, err := r.store(ctx, op, key, value, ttl)
	return err
}

// applied converts the error of a conditional change: false if its condition does not hold.
func (r *remote) applied(ctx context.Context, err error) (bool, error) {
	if errors.Is(err, client.ErrCacheMiss) || errors.Is(err, client.ErrNotStored) {
		return false, nil
	}
	return err == nil, r.wrapError(ctx, err)
}

// wrapError wraps an error of package client in the matching error of this package.
func (r *remote) wrapError(ctx context.Context, err error) error {
	var reply *client.ReplyError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ErrClosed
	case errors.Is(err, client.ErrCacheMiss):
		return ErrNotFound
	case errors.Is(err, client.ErrCASConflict):
		return ErrChanged
	case errors.Is(err, client.ErrMalformedKey):
		return ErrKey
	case errors.As(err, &reply):
		return fmt.Errorf("%w: %w", refusal(reply.Line), err)
	case errors.Is(err, client.ErrProtocol):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// refusal returns the error of this package that matches an error line of memcached.
func refusal(line string) error {
	for words, meaning := range map[string]error{
		"too large": ErrTooLarge, "out of memory": ErrNoMemory, "non-numeric": ErrNotANumber, "is stopped": ErrStuck,
		"out of disk space": ErrDiskFull, "disk does not keep up": ErrDiskBusy, "disk has failed": ErrDiskFailed,
		"disk did not return": ErrDiskUnreadable,
	} {
		if strings.Contains(line, words) {
			return meaning
		}
	}
	return ErrRefused
}

// expiration converts a time to live to the protocol's seconds: beyond 30 days they are a Unix
// time. The client's field ends in the year 2038.
func expiration(ttl time.Duration) int32 {
	const relativeMax = 30 * 24 * time.Hour
	if ttl = whole(ttl); ttl <= relativeMax {
		return int32(ttl / time.Second)
	}
	return int32(min(time.Now().Add(ttl).Unix(), math.MaxInt32))
}
