<?php

/**
 * The classes of larder.so, for editors and static analysis.
 *
 * A cache that cannot be used, or is full, is no error: reads miss, stores return false, and PHP
 * warns once in a process. `Exception` is for misuse.
 */

namespace Larder;

/** A key, a time to live, a value or an option that cannot be. */
class Exception extends \RuntimeException
{
}

/**
 * A cache. Keys are strings of one byte or more. A time to live is a number of seconds of at least
 * 1, an interval, or null for items that do not expire.
 */
final class Cache implements \Countable
{
    private function __construct()
    {
    }

    /**
     * Opens a cache in a file that processes of one user share, or without a path one of this
     * process and its later children, which ends with the object.
     *
     * Options: `memory`, the memory limit in bytes or as `64M`, for a file that is not there yet
     * (32M); `itemLimit`, the largest item in bytes (half of the memory); `permissions` of the file
     * (0600); `classes`, a list of the classes that stored objects may have, or `*` for all (none
     * for a file, all without one); `serializer`, php or igbinary, which writes objects and arrays that
     * contain objects or references (larder.serializer). A process with either reads both.
     *
     * @param array{memory?: int|string, itemLimit?: int|string, permissions?: int, classes?: list<class-string>|string, serializer?: string} $options
     */
    public static function open(?string $path = null, array $options = []): Cache
    {
    }

    /** Returns the cache that php.ini describes: larder.memory, or larder.path. */
    public static function shared(): Cache
    {
    }

    /** Returns the value of a key, and `$default` if there is none. */
    public function get(string $key, mixed $default = null): mixed
    {
    }

    /**
     * Returns the values of those keys that have one. PHP turns keys that are decimal numbers into
     * integers.
     *
     * @param iterable<string|int> $keys
     * @return array<string|int, mixed>
     */
    public function getMany(iterable $keys): array
    {
    }

    /** Stores a value. Returns false if the cache has no room for it: then the key has no value. */
    public function set(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Stores values by key. Returns false if one of them could not be stored.
     *
     * @param iterable<string|int, mixed> $values
     */
    public function setMany(iterable $values, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key has none; else returns false. */
    public function add(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key has one; else returns false. */
    public function replace(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Compares and sets: stores `$value` if the key has the value `$expected`, of the same type and
     * for objects with the same serialization. Of several processes that replace the same value one
     * succeeds; the others get false, and read again.
     */
    public function cas(string $key, mixed $expected, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Adds to an integer, which keeps its time to live, and returns the sum. A key without a value
     * begins at `$by`, with the time to live `$ttl`. Sums wrap at 64 bits. Returns false if the
     * cache cannot be used.
     *
     * @throws Exception if the value is not an integer
     */
    public function increment(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Subtracts from an integer: see increment(). A key without a value begins at `-$by`. */
    public function decrement(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Removes a value. Returns false if the key has none. */
    public function delete(string $key): bool
    {
    }

    /**
     * Removes values, and returns how many keys had one.
     *
     * @param iterable<string|int> $keys
     */
    public function deleteMany(iterable $keys): int
    {
    }

    /**
     * Removes the values of all keys that begin with a prefix, and returns their number. The cost is
     * a walk through all keys of the cache.
     */
    public function deletePrefix(string $prefix): int
    {
    }

    /** Returns true if the key has a value. */
    public function has(string $key): bool
    {
    }

    /** Gives a value a new time to live. Returns false if the key has none. */
    public function touch(string $key, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Returns the value of a key. If there is none, calls `$compute` with the key, and stores and
     * returns its result.
     *
     * One process at a time computes a value. Others wait for it, at most larder.compute_wait (10)
     * seconds, and compute it themselves then. For `$staleFor` seconds after its time to live a value is stale: one call
     * computes it anew, the others return the stale value meanwhile. All other methods miss then.
     */
    public function getOrCompute(string $key, callable $compute, \DateInterval|int|null $ttl = null, int $staleFor = 0): mixed
    {
    }

    /**
     * Returns an iterator over the items whose keys begin with a prefix, in no particular order. It
     * holds no lock: items that are stored or removed meanwhile may be left out, and one that is
     * stored anew may come twice.
     */
    public function iterate(string $prefix = ''): Items
    {
    }

    /**
     * Returns the keys that begin with a prefix: see iterate().
     *
     * @return list<string>
     */
    public function keys(string $prefix = ''): array
    {
    }

    /** Removes all items. */
    public function clear(): bool
    {
    }

    /**
     * Returns counters of the cache by name, such as `get_hits`. docs/stats.md explains them.
     *
     * @return array<string, int>
     */
    public function stats(): array
    {
    }

    /** Returns the number of items. It includes items that have expired until the cache finds them. */
    public function count(): int
    {
    }
}

/**
 * A cache on a larderd, or on any memcached, at a unix socket. Hits are read in the memory of a
 * larderd that runs with `--local-readers`; other calls are requests to the server.
 *
 * The methods are those of Cache, as far as a server can do them. Values carry the types of
 * php-memcached, so that programs with either read what the other stored, also if php-memcached has
 * compressed it by fastlz, its default. Keys have 1 to 250 bytes, at most 187 with blanks or control characters.
 */
final class Client
{
    private function __construct()
    {
    }

    /**
     * Connects to a server. All objects of a process that name the same socket share the connection,
     * which later requests use too.
     *
     * Options: `timeoutMs`, how long a call waits for the server (5000); `classes`, a list of the
     * classes that stored objects may have, or `*` for all (none); `serializer`, php or igbinary,
     * which writes arrays and objects (larder.serializer).
     *
     * @param array{timeoutMs?: int, classes?: list<class-string>|string, serializer?: string} $options
     */
    public static function connect(string $socket, array $options = []): Client
    {
    }

    /** Returns the value of a key, and `$default` if there is none. */
    public function get(string $key, mixed $default = null): mixed
    {
    }

    /**
     * Returns the values of those keys that have one. PHP turns keys that are decimal numbers into
     * integers.
     *
     * @param iterable<string|int> $keys
     * @return array<string|int, mixed>
     */
    public function getMany(iterable $keys): array
    {
    }

    /** Stores a value. Returns false if the server refuses it, or cannot be reached. */
    public function set(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Stores values by key. Returns false if one of them could not be stored.
     *
     * @param iterable<string|int, mixed> $values
     */
    public function setMany(iterable $values, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key has none; else returns false. */
    public function add(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key has one; else returns false. */
    public function replace(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Compares and sets: see Cache::cas(). The server keeps cas tokens, unless its options say that
     * it does not: then PHP warns once, and the result is false.
     */
    public function cas(string $key, mixed $expected, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Adds to an integer, which keeps its time to live, and returns the sum. A key without a value
     * begins at `$by`, at least 0, with the time to live `$ttl`. Returns false if the server cannot
     * be reached.
     *
     * @throws Exception if the value is not an integer from 0 on
     */
    public function increment(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Subtracts from an integer, which stops at 0: see increment(). */
    public function decrement(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Removes a value. Returns false if the key has none. */
    public function delete(string $key): bool
    {
    }

    /**
     * Removes values, and returns how many keys had one.
     *
     * @param iterable<string|int> $keys
     */
    public function deleteMany(iterable $keys): int
    {
    }

    /** Returns true if the key has a value. */
    public function has(string $key): bool
    {
    }

    /** Gives a value a new time to live. Returns false if the key has none. */
    public function touch(string $key, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Returns the value of a key. If there is none, calls `$compute` with the key, and stores and
     * returns its result: see Cache::getOrCompute(). Among all clients of the server one process at
     * a time computes. A process that dies meanwhile holds the others up for larder.compute_wait
     * seconds. `$staleFor` is at most 65535.
     */
    public function getOrCompute(string $key, callable $compute, \DateInterval|int|null $ttl = null, int $staleFor = 0): mixed
    {
    }

    /** @throws Exception always: a server does not list its keys */
    public function deletePrefix(string $prefix): int
    {
    }

    /** @throws Exception always: a server does not list its keys */
    public function iterate(string $prefix = ''): Items
    {
    }

    /** @throws Exception always: a server does not list its keys */
    public function keys(string $prefix = ''): array
    {
    }

    /** @throws Exception always: flush_all is for the administrator of the server */
    public function clear(): bool
    {
    }

    /** @throws Exception always: the statistics are for the administrator of the server */
    public function stats(): array
    {
    }
}

/** The items of Cache::iterate(): keys and values. */
final class Items implements \Iterator
{
    private function __construct()
    {
    }

    public function current(): mixed
    {
    }

    public function key(): ?string
    {
    }

    public function next(): void
    {
    }

    public function rewind(): void
    {
    }

    public function valid(): bool
    {
    }
}
