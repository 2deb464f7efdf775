--TEST--
__serialize and __unserialize use the cache
--FILE--
<?php
$cache = Larder\Cache::open();
class Nested
{
    public function __construct(public mixed $kept = null) {}
    public function __serialize(): array
    {
        global $cache;
        $cache->set('inner', new ArrayObject([1, 2]));
        return ['kept' => $this->kept];
    }
    public function __unserialize(array $data): void
    {
        global $cache;
        $this->kept = [$data['kept'], $cache->get('inner'), $cache->get('outer2')];
    }
}
class Thrower
{
    public function __unserialize(array $data): void { throw new LogicException('in __unserialize'); }
}
$shared = new stdClass();
$cache->set('outer2', [$shared, $shared]);
$cache->set('outer', [new Nested($shared), new Nested($shared), $shared]);
$back = $cache->get('outer');
var_dump($back[0]->kept[1]->count(), $back[0]->kept[0] === $back[1]->kept[0], $back[2] === $back[0]->kept[0], count($back[1]->kept[2]));
$cache->set('thrower', new Thrower());
try {
    $cache->get('thrower', 'default');
} catch (LogicException $exception) {
    echo $exception->getMessage(), "\n";
}
try {
    foreach ($cache->iterate('thrower') as $value) {
        echo "no value\n";
    }
} catch (LogicException $exception) {
    echo $exception->getMessage(), "\n";
}
// A walk continues while the loop changes the cache.
for ($at = 0; $at < 1000; ++$at) {
    $cache->set("item $at", $at);
}
$seen = [];
foreach ($cache->iterate('item ') as $key => $value) {
    $cache->delete($key);
    $cache->get('outer');
    $seen[$key] = true;
}
var_dump(count($seen), $cache->keys('item '));
// An iterator keeps its cache, and can be rewound.
$items = (function () { $cache = Larder\Cache::open(); $cache->set('a', 1); return $cache->iterate(); })();
var_dump(iterator_to_array($items), iterator_to_array($items), $items->valid(), $items->current(), $items->key());
?>
--EXPECT--
int(2)
bool(true)
bool(true)
int(2)
in __unserialize
in __unserialize
int(1000)
array(0) {
}
array(1) {
  ["a"]=>
  int(1)
}
array(1) {
  ["a"]=>
  int(1)
}
bool(false)
NULL
NULL
