<?php

declare(strict_types=1);

namespace Larder;

use Psr\SimpleCache\CacheInterface;

/**
 * A cache of PSR-16 (versions 1 to 3 of psr/simple-cache).
 *
 * If the cache fails, reads miss and stores return false. A value that cannot be serialized is not
 * stored.
 */
final class Psr16 implements CacheInterface
{
    /** @param string $prefix precedes all keys, so that other programs can use the same cache */
    public function __construct(private Cache $cache, private string $prefix = '')
    {
    }

    public function get($key, $default = null): mixed
    {
        return $this->cache->get($this->key($key), $default);
    }

    public function set($key, $value, $ttl = null): bool
    {
        return $this->store([$this->key($key) => $value], $this->ttl($ttl));
    }

    public function delete($key): bool
    {
        $this->cache->delete($this->key($key));
        return true;
    }

    public function clear(): bool
    {
        if ($this->prefix === '') {
            return $this->cache->clear();
        }
        $this->cache->deletePrefix($this->prefix);
        return true;
    }

    public function getMultiple($keys, $default = null): iterable
    {
        $names = [];
        foreach ($this->items($keys) as $key) {
            $names[$key] = $this->key($key);
        }
        $found = $this->cache->getMany($names);
        $values = [];
        foreach ($names as $key => $name) {
            $values[$key] = array_key_exists($name, $found) ? $found[$name] : $default;
        }
        return $values;
    }

    public function setMultiple($values, $ttl = null): bool
    {
        $ttl = $this->ttl($ttl);
        $items = [];
        foreach ($this->items($values) as $key => $value) {
            // PHP converts decimal keys of arrays to integers.
            $items[$this->key(is_int($key) ? (string) $key : $key)] = $value;
        }
        return $this->store($items, $ttl);
    }

    public function deleteMultiple($keys): bool
    {
        $names = [];
        foreach ($this->items($keys) as $key) {
            $names[] = $this->key($key);
        }
        $this->cache->deleteMany($names);
        return true;
    }

    public function has($key): bool
    {
        return $this->cache->has($this->key($key));
    }

    /** Stores items. With a time to live of 0 or less they have already expired. */
    private function store(array $items, int|\DateInterval|null $ttl): bool
    {
        if (is_int($ttl) && $ttl <= 0) {
            $this->cache->deleteMany(array_map(strval(...), array_keys($items)));
            return true;
        }
        try {
            return $this->cache->setMany($items, $ttl);
        } catch (Exception) {
            return false;
        }
    }

    private function key(mixed $key): string
    {
        if (!is_string($key) || $key === '' || strpbrk($key, '{}()/\@:') !== false) {
            throw new Psr16InvalidArgument('A key must be a non-empty string without any of {}()/\@:');
        }
        return $this->prefix . $key;
    }

    private function items(mixed $items): iterable
    {
        return is_iterable($items) ? $items : throw new Psr16InvalidArgument('The list must be an array or a Traversable');
    }

    private function ttl(mixed $ttl): int|\DateInterval|null
    {
        if ($ttl instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            return $now->add($ttl)->getTimestamp() - $now->getTimestamp();
        }
        if ($ttl !== null && !is_int($ttl)) {
            throw new Psr16InvalidArgument('A time to live must be an integer, a DateInterval or null');
        }
        return $ttl;
    }
}
