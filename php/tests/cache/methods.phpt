--TEST--
Each method does what its name says
--FILE--
<?php
$cache = Larder\Cache::open(options: ['memory' => '8M']);
$cache->set('zero', 0);
var_dump($cache->get('missing'), $cache->get('missing', 'default'), $cache->get('zero', 'default'));
var_dump($cache->add('a', 1), $cache->add('a', 2), $cache->replace('a', 3), $cache->replace('b', 4), $cache->get('a'), $cache->has('b'));
var_dump($cache->increment('n'), $cache->increment('n', -5), $cache->decrement('n', 2), $cache->decrement('m', 7, 60), $cache->get('m'));
var_dump($cache->cas('list', [], [1]), $cache->set('list', [1, 'x']), $cache->cas('list', ['1', 'x'], []), $cache->cas('list', [1, 'x'], [2]), $cache->get('list'));
$source = (function () { yield 'x' => 1; yield 'y' => [2]; yield 7 => null; })();
var_dump($cache->setMany($source, new DateInterval('P1D')), $cache->getMany(new ArrayIterator(['x', 'y', '7', 'z'])));
var_dump($cache->deleteMany(['x', 'z', 'y']), $cache->delete('7'), $cache->delete('7'));
var_dump(count($cache), $cache->clear(), $cache->get('a'), count($cache));
$stats = $cache->stats();
var_dump($stats['get_hits'] > 3, array_filter($stats, fn ($value) => !is_int($value)));
var_dump($cache->iterate() instanceof Iterator, iterator_to_array($cache->iterate()));
?>
--EXPECT--
NULL
string(7) "default"
int(0)
bool(true)
bool(false)
bool(true)
bool(false)
int(3)
bool(false)
int(1)
int(-4)
int(-6)
int(-7)
int(-7)
bool(false)
bool(true)
bool(false)
bool(true)
array(1) {
  [0]=>
  int(2)
}
bool(true)
array(3) {
  ["x"]=>
  int(1)
  ["y"]=>
  array(1) {
    [0]=>
    int(2)
  }
  [7]=>
  NULL
}
int(2)
bool(true)
bool(false)
int(5)
bool(true)
NULL
int(0)
bool(true)
array(0) {
}
bool(true)
array(0) {
}
