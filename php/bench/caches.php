<?php
// The caches that the benchmark compares: how a PHP process loads each of them, and the PHP code of
// each operation. `load.php` inserts the code into its loops as text, so that the times include no
// calls of wrappers.

/** Memory of each cache, in MiB. */
const MEMORY_MIB = 1024;

/**
 * Returns the caches by name. Each has
 * - ini: settings for the PHP process, `extension` among them;
 * - open: code that runs once in each process, before the loops;
 * - get, set, increment: the operations, on `$key` and `$value`; a get that misses is `false`;
 * - is_remote: true if an operation is a round trip to a server;
 * - may_miss: true if a get may miss while other processes write, as Yac's.
 */
function caches(string $extensions, ?string $ours, array $sockets): array
{
    $apcu = [
        'get' => 'apcu_fetch($key)',
        'set' => 'apcu_store($key, $value)',
        'increment' => 'apcu_inc($key)',
        'open' => '',
        'is_remote' => false,
    ];
    $apcu_ini = ['apc.enable_cli' => 1, 'apc.shm_size' => MEMORY_MIB . 'M'];
    $memcached = [
        'ini' => ['extension' => ["$extensions/igbinary.so", "$extensions/msgpack.so",
            "$extensions/memcached.so"]],
        'get' => '$cache->get($key)',
        'set' => '$cache->set($key, $value)',
        'increment' => '$cache->increment($key)',
        'is_remote' => true,
    ];
    $caches = [
        'apcu' => ['ini' => $apcu_ini + ['extension' => ["$extensions/apcu.so"]]] + $apcu,
        'apcu (hint 65536)' => ['ini' => $apcu_ini
            + ['extension' => ["$extensions/apcu.so"], 'apc.entries_hint' => 65536]] + $apcu,
        'apcu newest' => ['ini' => $apcu_ini
            + ['extension' => ["$extensions/apcu-newest.so"]]] + $apcu,
        'apcu newest (hint 65536)' => ['ini' => $apcu_ini
            + ['extension' => ["$extensions/apcu-newest.so"], 'apc.entries_hint' => 65536]] + $apcu,
        'yac' => [
            'ini' => ['extension' => ["$extensions/yac.so"], 'yac.enable_cli' => 1,
                'yac.keys_memory_size' => '64M',
                'yac.values_memory_size' => (MEMORY_MIB - 64) . 'M'],
            'open' => '$cache = new Yac();',
            'get' => '$cache->get($key)',
            'set' => '$cache->set($key, $value)',
            'increment' => null,
            'is_remote' => false,
            'may_miss' => true,
        ],
        'memcached (tcp)' => ['open' => memcached_at('127.0.0.1', $sockets['tcp'])] + $memcached,
        'memcached (unix)' => ['open' => memcached_at($sockets['unix'], 0)] + $memcached,
    ];
    if ($ours !== null) {
        $caches['larder_apcu'] = ['ini' => $apcu_ini + ['extension' => [$ours]]] + $apcu;
        $caches['larder'] = [
            'ini' => ['extension' => [dirname($ours) . '/larder.so'], 'larder.enable_cli' => 1,
                'larder.memory' => MEMORY_MIB . 'M'],
            'open' => '$cache = Larder\\Cache::shared();',
            'get' => '$cache->get($key, false)',
            'set' => '$cache->set($key, $value)',
            'increment' => '$cache->increment($key)',
            'is_remote' => false,
        ];
    }
    return $caches;
}

/** Returns the code that connects a client of memcached. */
function memcached_at(string $host, int $port): string
{
    $server = var_export($host, true) . ", $port";
    return '$cache = new Memcached(); $cache->setOption(Memcached::OPT_BINARY_PROTOCOL, false);'
        . " \$cache->addServer($server);";
}

/** Returns the arguments with which PHP loads only one cache. */
function php_arguments(array $cache): array
{
    $arguments = ['-n', '-d', 'memory_limit=-1'];
    foreach ($cache['ini'] as $name => $values) {
        foreach ((array) $values as $value) {
            array_push($arguments, '-d', "$name=$value");
        }
    }
    return $arguments;
}
