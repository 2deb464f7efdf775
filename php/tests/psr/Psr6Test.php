<?php

use Larder\Cache as Larder;
use Larder\Psr6;

/** php-cache's test suite on a pool with a prefix. */
final class Psr6Test extends Cache\IntegrationTests\CachePoolTest
{
    private static Larder $larder;

    public static function setUpBeforeClass(): void
    {
        self::$larder = Larder::open();
    }

    public function createCachePool()
    {
        return new Psr6(self::$larder, 'prefix ');
    }

    public function testPrefixKeepsOthersApart()
    {
        $other = new Psr6(self::$larder, 'other ');
        $other->save($other->getItem('key')->set(1));
        $this->cache->save($this->cache->getItem('key')->set(2));
        $this->cache->clear();
        $this->assertSame(1, $other->getItem('key')->get());
        $this->assertFalse($this->cache->getItem('key')->isHit());
    }

    public function testValueThatCannotBeSerialized()
    {
        $this->assertFalse($this->cache->save($this->cache->getItem('key')->set(fn () => 1)));
    }
}
