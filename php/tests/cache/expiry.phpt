--TEST--
Items expire, and only getOrCompute returns stale ones
--FILE--
<?php
$cache = Larder\Cache::open();
$cache->set('short', 1, 1);
$cache->set('interval', 1, new DateInterval('PT1S'));
$cache->set('long', 1, PHP_INT_MAX);
$cache->set('touched', 1, 1);
$cache->touch('touched', 100);
$cache->increment('counter', 1, 1);
$computed = 0;
$compute = function (string $key) use (&$computed) { return "$key " . ++$computed; };
var_dump($cache->getOrCompute('soft', $compute, 1, 100), $cache->get('soft'));
sleep(2);
var_dump($cache->getMany(['short', 'interval', 'long', 'touched', 'counter']));
// The value is stale: other calls miss, and the first getOrCompute computes it again.
var_dump($cache->get('soft'), $cache->has('soft'), $cache->touch('soft', 5), iterator_to_array($cache->iterate('soft')));
var_dump($cache->getOrCompute('soft', function () use ($cache, $compute) {
    // During the computation other calls return the stale value.
    echo $cache->getOrCompute('soft', $compute, 1, 100), "\n";
    return 'new';
}, 1, 100), $cache->get('soft'));
?>
--EXPECT--
string(6) "soft 1"
string(6) "soft 1"
array(2) {
  ["long"]=>
  int(1)
  ["touched"]=>
  int(1)
}
NULL
bool(false)
bool(false)
array(0) {
}
soft 1
string(3) "new"
string(3) "new"
