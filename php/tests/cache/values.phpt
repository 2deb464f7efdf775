--TEST--
Values come back as they were stored
--FILE--
<?php
class Plain { public $one = 1; protected $two = [2]; }
enum Suit: string { case Hearts = 'h'; }
$cache = Larder\Cache::open();
$shared = [1];
$values = [null, true, false, 0, -1, PHP_INT_MAX, PHP_INT_MIN, 0.1 + 0.2, -0.0, INF, -INF, '', 'x', "\0\xFF",
    str_repeat('long', 5000), [], [1, 2], ['a' => ['b' => null]], ['1x' => 1.5], new Plain(), Suit::Hearts,
    [new Plain(), new ArrayObject([1])], [&$shared, &$shared], new DateTimeImmutable('2026-01-02 UTC')];
foreach ($values as $at => $value) {
    $cache->set("key$at", $value) or print("$at is not stored\n");
    serialize($cache->get("key$at", 'missing')) === serialize($value) or print("$at differs\n");
}
var_dump(is_nan($cache->set('nan', NAN) ? $cache->get('nan') : 0));
$back = $cache->get('key22');
$back[0][] = 2;
var_dump(count($back[1]), count($shared));
?>
--EXPECT--
bool(true)
int(2)
int(1)
