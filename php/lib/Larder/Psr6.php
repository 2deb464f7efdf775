<?php

declare(strict_types=1);

namespace Larder;

use Psr\Cache\CacheItemInterface;
use Psr\Cache\CacheItemPoolInterface;

/**
 * A pool of PSR-6 (versions 1 to 3 of psr/cache).
 *
 * If the cache fails, reads miss and stores return false. commit() saves deferred items, as does
 * the destructor.
 */
final class Psr6 implements CacheItemPoolInterface
{
    /** @var array<string, Psr6Item> */
    private array $deferred = [];

    /** @param string $prefix precedes all keys, so that other programs can use the same cache */
    public function __construct(private Cache $cache, private string $prefix = '')
    {
    }

    public function __destruct()
    {
        $this->commit();
    }

    public function getItem($key): CacheItemInterface
    {
        foreach ($this->getItems([$key]) as $item) {
            return $item;
        }
    }

    public function getItems(array $keys = []): iterable
    {
        $names = [];
        foreach ($keys as $key) {
            $names[$key] = $this->name($key);
        }
        $found = $this->cache->getMany($names);
        $items = [];
        foreach ($names as $key => $name) {
            $key = (string) $key;
            $items[$key] = $this->deferredItem($key)
                ?? new Psr6Item($key, $found[$name] ?? null, array_key_exists($name, $found));
        }
        return $items;
    }

    public function hasItem($key): bool
    {
        $name = $this->name($key);
        return $this->deferredItem($key)?->isHit() ?? $this->cache->has($name);
    }

    public function clear(): bool
    {
        $this->deferred = [];
        if ($this->prefix === '') {
            return $this->cache->clear();
        }
        $this->cache->deletePrefix($this->prefix);
        return true;
    }

    public function deleteItem($key): bool
    {
        return $this->deleteItems([$key]);
    }

    public function deleteItems(array $keys): bool
    {
        $names = array_map($this->name(...), $keys);
        $this->deferred = array_diff_key($this->deferred, array_flip($keys));
        $this->cache->deleteMany($names);
        return true;
    }

    public function save(CacheItemInterface $item): bool
    {
        $name = $this->name($item->getKey());
        $ttl = $this->own($item)->ttl();
        unset($this->deferred[$item->getKey()]);
        if ($ttl !== null && $ttl <= 0) {
            $this->cache->delete($name);
            return true;
        }
        try {
            return $this->cache->set($name, $item->given(), $ttl);
        } catch (Exception) {
            return false;
        }
    }

    public function saveDeferred(CacheItemInterface $item): bool
    {
        $this->deferred[$item->getKey()] = clone $this->own($item);
        return true;
    }

    public function commit(): bool
    {
        $are_saved = true;
        foreach ($this->deferred as $item) {
            $are_saved = $this->save($item) && $are_saved;
        }
        return $are_saved;
    }

    /** Returns a copy of a key's deferred item for readers, or null. */
    private function deferredItem(string $key): ?Psr6Item
    {
        $item = $this->deferred[$key] ?? null;
        if ($item === null) {
            return null;
        }
        $ttl = $item->ttl();
        $is_hit = $ttl === null || $ttl > 0;
        $value = $item->given();
        return new Psr6Item($key, is_object($value) ? clone $value : $value, $is_hit);
    }

    private function own(CacheItemInterface $item): Psr6Item
    {
        return $item instanceof Psr6Item ? $item : throw new Psr6InvalidArgument('The item belongs to another pool');
    }

    private function name(mixed $key): string
    {
        if (!is_string($key) || $key === '' || strpbrk($key, '{}()/\@:') !== false) {
            throw new Psr6InvalidArgument('A key must be a non-empty string without any of {}()/\@:');
        }
        return $this->prefix . $key;
    }
}
