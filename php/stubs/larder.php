<?php

/**
 * The classes of larder.so, for editors and static analysis.
 *
 * A cache that cannot be used, or is full, does not throw: reads miss, stores return false, and PHP
 * warns once per process. `Exception` reports misuse.
 */

namespace Larder;

/** An invalid key, time to live, value or option. */
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
     * Opens a cache in a file that processes of one user share. Without a path, opens one that this
     * process shares with its later children and that ends with the object.
     *
     * Options, with defaults in parentheses: `memory`, the memory limit in bytes or as `64M`, for a
     * new file (32M); `itemLimit`, the largest item in bytes (half of the memory); `permissions` of
     * the file (0600); `classes`, a list of the classes that stored objects may have, or `*` for
     * all (no class for a file, all without one); `serializer`, php or igbinary, for objects and
     * for arrays that contain objects or references (larder.serializer). Each process reads values
     * of both serializers.
     *
     * @param array{memory?: int|string, itemLimit?: int|string, permissions?: int, classes?: list<class-string>|string, serializer?: string} $options
     */
    public static function open(?string $path = null, array $options = []): Cache
    {
    }

    /** Returns the cache configured in php.ini by larder.memory and larder.path. */
    public static function shared(): Cache
    {
    }

    /** Returns the value of a key, or `$default` if the key does not exist. */
    public function get(string $key, mixed $default = null): mixed
    {
    }

    /**
     * Returns the values of the keys that exist. PHP converts keys that are decimal numbers to
     * integers.
     *
     * @param iterable<string|int> $keys
     * @return array<string|int, mixed>
     */
    public function getMany(iterable $keys): array
    {
    }

    /**
     * Stores a value. Returns false if the cache has no space for it; the key then does not exist.
     */
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

    /** Stores a value if the key does not exist. Returns false otherwise. */
    public function add(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key exists. Returns false otherwise. */
    public function replace(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Stores `$value` if the key has the value `$expected`. The types must be equal, and objects
     * must have the same serialization. If several processes replace the same value, one succeeds.
     * The others receive false and should read again.
     */
    public function cas(string $key, mixed $expected, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Adds to an integer and returns the sum. The item keeps its time to live. A key that does not
     * exist starts at `$by`, with the time to live `$ttl`. Sums wrap at 64 bits. Returns false if
     * the cache cannot be used.
     *
     * @throws Exception if the value is not an integer
     */
    public function increment(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Subtracts from an integer: see increment(). A key that does not exist starts at `-$by`. */
    public function decrement(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Removes a value. Returns false if the key does not exist. */
    public function delete(string $key): bool
    {
    }

    /**
     * Removes values, and returns how many keys existed.
     *
     * @param iterable<string|int> $keys
     */
    public function deleteMany(iterable $keys): int
    {
    }

    /**
     * Removes the values of all keys that begin with a prefix, and returns their number. It reads
     * all keys of the cache.
     */
    public function deletePrefix(string $prefix): int
    {
    }

    /** Returns true if the key exists. */
    public function has(string $key): bool
    {
    }

    /** Sets a new time to live. Returns false if the key does not exist. */
    public function touch(string $key, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Returns the value of a key. If it does not exist, calls `$compute` with the key, and stores
     * and returns its result.
     *
     * One process at a time computes a value. Others wait for it, at most larder.compute_wait (10)
     * seconds, and then compute it themselves. For `$staleFor` seconds after its time to live a
     * value is stale: one call computes it again, and the other calls return the stale value. All
     * other methods miss on a stale value.
     */
    public function getOrCompute(string $key, callable $compute, \DateInterval|int|null $ttl = null, int $staleFor = 0): mixed
    {
    }

    /**
     * Returns an iterator over the items whose keys begin with a prefix, in no particular order. It
     * holds no lock. It may skip items that are stored or removed during the iteration, and may
     * return an item twice that is stored again.
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
     * Returns the cache's counters by name, such as `get_hits`. docs/stats.md explains them.
     *
     * @return array<string, int>
     */
    public function stats(): array
    {
    }

    /** Returns the number of items. Expired items count until the cache removes them. */
    public function count(): int
    {
    }
}

/**
 * A cache on a larderd or memcached at a unix socket. If a larderd runs with `--local-readers`,
 * hits are read directly from its memory; all other calls are requests to the server.
 *
 * The class has the methods of Cache that a server supports; the others throw. Values have the
 * types of php-memcached, and each of the two extensions reads values that the other stored. This
 * includes values that php-memcached has compressed with fastlz, its default. Keys have 1 to 250
 * bytes, at most 187 if they contain blanks or control characters.
 */
final class Client
{
    private function __construct()
    {
    }

    /**
     * Connects to a server. All objects of a process that name the same socket share one
     * connection, which stays open for later requests.
     *
     * Options, with defaults in parentheses: `timeoutMs`, how long a call waits for the server
     * (5000); `classes`, a list of the classes that stored objects may have, or `*` for all (no
     * class); `serializer`, php or igbinary, for arrays and objects (larder.serializer).
     *
     * @param array{timeoutMs?: int, classes?: list<class-string>|string, serializer?: string} $options
     */
    public static function connect(string $socket, array $options = []): Client
    {
    }

    /** Returns the value of a key, or `$default` if the key does not exist. */
    public function get(string $key, mixed $default = null): mixed
    {
    }

    /**
     * Returns the values of the keys that exist. PHP converts keys that are decimal numbers to
     * integers.
     *
     * @param iterable<string|int> $keys
     * @return array<string|int, mixed>
     */
    public function getMany(iterable $keys): array
    {
    }

    /** Stores a value. Returns false if the server refuses it or cannot be reached. */
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

    /** Stores a value if the key does not exist. Returns false otherwise. */
    public function add(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /** Stores a value if the key exists. Returns false otherwise. */
    public function replace(string $key, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Compares and sets: see Cache::cas(). It needs a server with cas tokens. If they are disabled
     * on the server, PHP warns once and the method returns false.
     */
    public function cas(string $key, mixed $expected, mixed $value, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Adds to an integer and returns the sum. The item keeps its time to live. A key that does not
     * exist starts at `$by`, at least 0, with the time to live `$ttl`. Returns false if the server
     * cannot be reached.
     *
     * @throws Exception if the value is not an integer of at least 0
     */
    public function increment(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Subtracts from an integer, and stops at 0: see increment(). */
    public function decrement(string $key, int $by = 1, \DateInterval|int|null $ttl = null): int|false
    {
    }

    /** Removes a value. Returns false if the key does not exist. */
    public function delete(string $key): bool
    {
    }

    /**
     * Removes values, and returns how many keys existed.
     *
     * @param iterable<string|int> $keys
     */
    public function deleteMany(iterable $keys): int
    {
    }

    /** Returns true if the key exists. */
    public function has(string $key): bool
    {
    }

    /** Sets a new time to live. Returns false if the key does not exist. */
    public function touch(string $key, \DateInterval|int|null $ttl = null): bool
    {
    }

    /**
     * Returns the value of a key. If it does not exist, calls `$compute` with the key, and stores
     * and returns its result: see Cache::getOrCompute(). Among all clients of the server one
     * process at a time computes. If it dies, the others wait for larder.compute_wait seconds.
     * `$staleFor` is at most 65535.
     */
    public function getOrCompute(string $key, callable $compute, \DateInterval|int|null $ttl = null, int $staleFor = 0): mixed
    {
    }

    /** @throws Exception always, because a server does not list its keys */
    public function deletePrefix(string $prefix): int
    {
    }

    /** @throws Exception always, because a server does not list its keys */
    public function iterate(string $prefix = ''): Items
    {
    }

    /** @throws Exception always, because a server does not list its keys */
    public function keys(string $prefix = ''): array
    {
    }

    /** @throws Exception always, because flush_all is reserved for the server's administrator */
    public function clear(): bool
    {
    }

    /** @throws Exception always, because statistics are reserved for the server's administrator */
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
