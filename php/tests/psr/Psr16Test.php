<?php

use Larder\Cache as Larder;
use Larder\Psr16;

/** php-cache's test suite on a cache with a prefix. */
final class Psr16Test extends Cache\IntegrationTests\SimpleCacheTest
{
    private static Larder $larder;

    public static function setUpBeforeClass(): void
    {
        self::$larder = Larder::open();
    }

    public function createSimpleCache()
    {
        return new Psr16(self::$larder, 'prefix ');
    }

    public function testPrefixKeepsOthersApart()
    {
        $other = new Psr16(self::$larder, 'other ');
        $other->set('key', 1);
        $this->cache->set('key', 2);
        $this->cache->clear();
        $this->assertSame(1, $other->get('key'));
        $this->assertNull($this->cache->get('key'));
    }

    public function testValueThatCannotBeSerialized()
    {
        $this->assertFalse($this->cache->set('key', fn () => 1));
    }
}
