--TEST--
Misuse throws exceptions that name the error
--FILE--
<?php
class Thrower { public function __serialize(): array { throw new LogicException('inside'); } }
$cache = Larder\Cache::open();
$cache->set('text', 'x');
$calls = [
    fn () => $cache->set('a', 1, 0),
    fn () => $cache->set('a', 1, -5),
    fn () => $cache->set('a', 1, DateInterval::createFromDateString('-1 day')),
    fn () => $cache->set('a', 1, 'soon'),
    fn () => $cache->set('a', fopen('php://memory', 'r')),
    fn () => $cache->set('a', ['x' => [fopen('php://memory', 'r')]]),
    fn () => $cache->set('a', fn () => 1),
    fn () => $cache->set('a', [new Thrower()]),
    fn () => $cache->increment('text'),
    fn () => $cache->increment(str_repeat('x', 300)) + $cache->set(str_repeat('x', 300), 'text') + $cache->increment(str_repeat('x', 300)),
    fn () => $cache->getMany([1.5]),
    fn () => $cache->setMany(['' => 1]),
    fn () => $cache->getOrCompute('a', fn () => 1, null, 10),
    fn () => $cache->getOrCompute('a', fn () => 1, 10, -1),
    fn () => $cache->getOrCompute('', fn () => 1),
    fn () => Larder\Cache::open(null, ['size' => 1]),
    fn () => Larder\Cache::open(null, ['memory' => 5]),
    fn () => Larder\Cache::open(null, ['classes' => 5]),
    fn () => [ini_set('open_basedir', '/dev/shm'), Larder\Cache::open('/tmp/region')],
    fn () => serialize($cache),
    fn () => clone $cache,
    fn () => new Larder\Cache(),
    fn () => $cache->x = 1,
    fn () => $cache->deleteMany((function () { yield 'a'; throw new LogicException('in a generator'); })()),
];
foreach ($calls as $call) {
    try {
        $call();
        echo "no exception\n";
    } catch (Throwable $thrown) {
        echo $thrown::class, ': ', $thrown->getMessage(),
            $thrown->getPrevious() ? ' (' . $thrown->getPrevious()->getMessage() . ')' : '', "\n";
    }
}
var_dump($cache->has('a'));
?>
--EXPECTF--
Larder\Exception: A time to live must be at least one second, or null: 0 given
Larder\Exception: A time to live must be at least one second, or null: -5 given
Larder\Exception: A time to live must be at least one second, or null: -86400 given
TypeError: Larder\Cache::set(): Argument #3 ($ttl) must be of type DateInterval|int|null, string given
Larder\Exception: The value cannot be stored: it is a resource
Larder\Exception: The value cannot be stored: it contains a resource
Larder\Exception: The value cannot be serialized (Serialization of 'Closure' is not allowed)
Larder\Exception: The value cannot be serialized (inside)
Larder\Exception: The value is not an integer
Larder\Exception: The value is not an integer
Larder\Exception: A key must be a string: float given
Larder\Exception: A key must have at least one byte
Larder\Exception: staleFor must be 0 to 134217727 seconds, and needs a time to live
Larder\Exception: staleFor must be 0 to 134217727 seconds, and needs a time to live
Larder\Exception: A key must have at least one byte
Larder\Exception: Unknown option size: the options are memory, itemLimit, permissions, classes and serializer
Larder\Exception: The option memory must be a number from 1048576 to 1099511627776
Larder\Exception: The option classes must be a list of class names, or '*'
Larder\Exception: The file /tmp/region is not within open_basedir
Exception: Serialization of 'Larder\Cache' is not allowed
Error: Trying to clone an uncloneable object of class Larder\Cache
Error: Call to private Larder\Cache::__construct() from global scope
Error: Cannot create dynamic property Larder\Cache::$x
LogicException: in a generator
bool(false)
