--TEST--
The memory limit in the middle of a call leaves the cache usable
--EXTENSIONS--
pcntl
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die("skip C's allocator has no limit"); ?>
--INI--
memory_limit=256M
larder.memory=128M
larder.enable_cli=1
--FILE--
<?php
$cache = Larder\Cache::shared();
$ways = [
    'string' => str_repeat('x', 3 << 20),
    'array' => array_fill(0, 100000, 'text'),
    'object' => new ArrayObject(array_fill(0, 100000, 1.5)),
];
foreach ($ways as $name => $value) {
    $cache->set($name, $value) or print("$name is not stored\n");
}
unset($ways, $value);
foreach (['string', 'array', 'object', 'compute', 'iterate', 'many', 'cas'] as $way) {
    $cache->set('small', "small of $way");
    if (pcntl_fork() === 0) {
        ini_set('display_errors', '0');
        register_shutdown_function(function () use ($way, $cache) {
            ini_set('memory_limit', '128M');
            echo $way, ': ', str_contains(error_get_last()['message'] ?? '', 'memory size') ? 'limit' : 'no limit',
                ', ', $cache->get('small'), ', ', $cache->getOrCompute('key', fn () => 'computed'), "\n";
        });
        gc_collect_cycles();
        gc_mem_caches();
        ini_set('memory_limit', (string) (memory_get_usage(true) + (1 << 20)));
        match ($way) {
            'compute' => $cache->getOrCompute('key', fn () => str_repeat('x', 3 << 20)),
            'iterate' => iterator_to_array($cache->iterate('string')),
            'many' => $cache->getMany(['small', 'string']),
            'cas' => $cache->cas('string', 'x', 'y'),
            default => $cache->get($way),
        };
        exit(0);
    }
    pcntl_wait($status);
    $cache->delete('key');
}
var_dump(strlen($cache->get('string')));
?>
--EXPECT--
string: limit, small of string, computed
array: limit, small of array, computed
object: limit, small of object, computed
compute: limit, small of compute, computed
iterate: limit, small of iterate, computed
many: limit, small of many, computed
cas: limit, small of cas, computed
int(3145728)
