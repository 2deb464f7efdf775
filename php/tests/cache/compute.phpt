--TEST--
getOrCompute: one process computes, exceptions and exit end the lease
--EXTENSIONS--
pcntl
--FILE--
<?php
$cache = Larder\Cache::open();
// Four processes, one computes.
$children = [];
for ($at = 0; $at < 4; ++$at) {
    if (($children[] = pcntl_fork()) === 0) {
        $value = $cache->getOrCompute('report', function (string $key) use ($cache) {
            $cache->increment('computed');
            usleep(300_000);
            return "value of $key";
        }, 60);
        $value === 'value of report' or print("wrong value\n");
        exit(0);
    }
}
array_map(fn ($child) => pcntl_waitpid($child, $status), $children);
var_dump($cache->get('computed'), $cache->getOrCompute('report', fn () => 'another'));

try {
    $cache->getOrCompute('thrown', fn () => throw new LogicException('no value'));
} catch (LogicException $exception) {
    echo $exception->getMessage(), "\n";
}
$begin = hrtime(true);
var_dump($cache->getOrCompute('thrown', fn () => 'computed'));

// exit() and a fatal error in the callback.
foreach (['exit' => fn () => exit(0), 'fatal' => fn () => require '/missing', 'kill' => fn () => posix_kill(getmypid(), 9)] as $name => $end) {
    if (pcntl_fork() === 0) {
        ini_set('display_errors', '0');
        $cache->getOrCompute($name, $end);
        exit(0);
    }
    pcntl_wait($status);
    echo $name, ': ', $cache->getOrCompute($name, fn () => 'computed'), "\n";
}
// Nested calls, of the same key and of others.
echo $cache->getOrCompute('outer', fn () => $cache->getOrCompute('outer', fn () => 'inner ') . $cache->getOrCompute('other', fn () => 'other')), "\n";
echo $cache->get('outer'), "\n";
// A null is a value; a reference is not.
$calls = 0;
$null = function & () use (&$calls) { ++$calls; $value = null; return $value; };
var_dump($cache->getOrCompute('null', $null), $cache->getOrCompute('null', $null), $calls, $cache->has('null'));
// A generator or a fiber that ends in the middle ends the lease.
$fiber = new Fiber(fn () => $cache->getOrCompute('fiber', fn () => Fiber::suspend()));
$fiber->start();
unset($fiber);
gc_collect_cycles();
var_dump($cache->getOrCompute('fiber', fn () => 'of the fiber'));
var_dump(hrtime(true) - $begin < 5e9);
?>
--EXPECT--
int(1)
string(15) "value of report"
no value
string(8) "computed"
exit: computed
fatal: computed
kill: computed
inner other
inner other
NULL
NULL
int(1)
bool(true)
string(12) "of the fiber"
bool(true)
