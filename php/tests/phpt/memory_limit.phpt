--TEST--
The memory limit in the middle of a call leaves the cache usable
--SKIPIF--
<?php
if (!extension_loaded('pcntl')) die('skip pcntl required');
if (getenv('USE_ZEND_ALLOC') === '0') die("skip C's allocator has no limit");
?>
--INI--
apc.enabled=1
apc.enable_cli=1
apc.shm_size=128M
memory_limit=256M
--FILE--
<?php
// Each way to reach the memory limit, in a child, and the cache afterwards.
$ways = [
    'string' => str_repeat('x', 3 << 20),
    'array' => array_fill(0, 100000, 'text'),
    'object' => new ArrayObject(array_fill(0, 100000, 1.5)),
];
foreach ($ways as $name => $value) {
    apcu_store($name, $value) or print("$name is not stored\n");
}
unset($ways, $value);
foreach (['string', 'array', 'object', 'entry', 'iterate'] as $way) {
    apcu_store('small', "small of $way");
    if (pcntl_fork() === 0) {
        ini_set('display_errors', '0');
        register_shutdown_function(function () use ($way) {
            ini_set('memory_limit', '128M');
            echo $way, ': ', str_contains(error_get_last()['message'] ?? '', 'memory size') ? 'limit' : 'no limit',
                ', ', apcu_fetch('small'), ', ', apcu_entry('key', fn () => 'computed'), "\n";
        });
        gc_collect_cycles();
        gc_mem_caches();
        ini_set('memory_limit', (string) (memory_get_usage(true) + (1 << 20)));
        match ($way) {
            'entry' => apcu_entry('key', fn () => str_repeat('x', 3 << 20)),
            'iterate' => iterator_to_array(new APCUIterator('/^string$/')),
            default => apcu_fetch($way),
        };
        exit(0);
    }
    pcntl_wait($status);
    apcu_delete('key');
}
var_dump(strlen(apcu_fetch('string')));
?>
--EXPECTF--
string: limit, small of string, computed
array: limit, small of array, computed
object: limit, small of object, computed
entry: limit, small of entry, computed
iterate: limit, small of iterate, computed
int(3145728)
