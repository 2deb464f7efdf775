<?php
// The operations of a PHP program with the memcached extension, on a port and on a Unix socket.
declare(strict_types=1);

[, $port, $socket] = $argv;
$context = '';

function check(string $name, bool $holds, ?Memcached $client = null): void
{
    global $context;
    $why = $client === null ? '' : ' (' . $client->getResultMessage() . ')';
    // No `echo` here: sessions can only be opened before the first output.
    fwrite(STDOUT, $holds ? "ok - $context: $name\n" : "not ok - $context: $name$why\n");
}

function connect(string $host, int $port, bool $binary): Memcached
{
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $binary);
    $client->setOption(Memcached::OPT_TCP_NODELAY, true);
    $client->addServer($host, $port);
    return $client;
}

// The flags carry the types, so these checks show that all 32 bits of the flags are kept.
function values(Memcached $c): void
{
    $values = [
        'null' => null, 'true' => true, 'integer' => PHP_INT_MIN, 'double' => 1.25, 'empty' => '',
        'bytes' => "\0\r\nEND\r\n\xff", 'array' => ['a' => [1, 2.5, null]], 'compressed' => str_repeat('larder ', 30000),
    ];
    foreach ($values as $name => $value) {
        check("set $name", $c->set("value:$name", $value), $c);
        check("get $name", $c->get("value:$name") === $value && $c->getResultCode() === Memcached::RES_SUCCESS, $c);
    }
    $c->setOption(Memcached::OPT_COMPRESSION, false);
    foreach ([1, 1023, 1024, 2048, 16383, 16384, 65536, 1000000] as $size) {
        $value = substr(str_repeat(random_bytes(997), intdiv($size, 997) + 1), 0, $size);
        check("value of $size bytes", $c->set('sized', $value) && $c->get('sized') === $value, $c);
    }
    check('too large', !$c->set('sized', str_repeat('x', 2000000)), $c);
    check('a value that is too large is reported', $c->getResultCode() === Memcached::RES_E2BIG, $c);
    check('a refused value leaves nothing', $c->get('sized') === false, $c);
    $c->setOption(Memcached::OPT_COMPRESSION, true);
    $key = str_repeat('k', 250);
    check('key of 250 bytes', $c->set($key, 'v') && $c->get($key) === 'v', $c);
    $c->setOption(Memcached::OPT_USER_FLAGS, 0xabcd);
    check('user flags', $c->set('flagged', 'v') && $c->get('flagged', null, Memcached::GET_EXTENDED)['flags'] === 0xabcd, $c);
    $c->setOption(Memcached::OPT_USER_FLAGS, -1);
}

function conditions(Memcached $c): void
{
    $c->delete('c');
    check('replace of nothing', !$c->replace('c', 'a') && $c->getResultCode() === Memcached::RES_NOTSTORED || $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
    check('add', $c->add('c', 'a'), $c);
    check('add again', !$c->add('c', 'b') && in_array($c->getResultCode(), [Memcached::RES_NOTSTORED, Memcached::RES_DATA_EXISTS]), $c);
    check('replace', $c->replace('c', 'b') && $c->get('c') === 'b', $c);
    $cas = $c->get('c', null, Memcached::GET_EXTENDED)['cas'];
    check('cas', $c->cas($cas, 'c', 'c') && $c->get('c') === 'c', $c);
    check('cas with the old token', !$c->cas($cas, 'c', 'd') && $c->getResultCode() === Memcached::RES_DATA_EXISTS, $c);
    check('cas of nothing', !$c->cas($cas, 'nothing', 'd') && $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
    $c->setOption(Memcached::OPT_COMPRESSION, false);
    check('append', $c->append('c', 'd') && $c->get('c') === 'cd', $c);
    check('prepend', $c->prepend('c', 'b') && $c->get('c') === 'bcd', $c);
    check('append to nothing', !$c->append('nothing', 'x') && $c->getResultCode() === Memcached::RES_NOTSTORED, $c);
    $c->setOption(Memcached::OPT_COMPRESSION, true);
    check('delete', $c->delete('c') && $c->get('c') === false && $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
    check('delete of nothing', !$c->delete('c') && $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
}

function numbers(Memcached $c, bool $binary): void
{
    $c->set('n', 10);
    check('increment', $c->increment('n', 5) === 15, $c);
    check('decrement', $c->decrement('n', 20) === 0, $c);
    check('the number keeps its type', $c->get('n') === 0, $c);
    $c->delete('m');
    check('increment of nothing', $c->increment('m') === false && $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
    if ($binary) {
        check('increment from a start', $c->increment('m', 1, 7) === 7 && $c->increment('m', 1, 7) === 8, $c);
    }
    $c->set('n', 'no number');
    check('increment of a text', @$c->increment('n') === false, $c);
}

function many(Memcached $c): void
{
    $values = [];
    for ($i = 0; $i < 500; $i++) {
        $values["many:$i"] = str_repeat("v$i", $i % 50);
    }
    check('setMulti', $c->setMulti($values), $c);
    $got = $c->getMulti(array_merge(array_keys($values), ['nothing']), Memcached::GET_PRESERVE_ORDER);
    check('getMulti', is_array($got) && array_diff_key($got, $values) === ['nothing' => null] && array_intersect_key($got, $values) === $values, $c);
    check('getDelayed', $c->getDelayed(['many:7', 'many:8'], true) && count($c->fetchAll() ?: []) === 2, $c);
    $deleted = $c->deleteMulti(array_slice(array_keys($values), 0, 100));
    check('deleteMulti', array_filter($deleted, fn ($each) => $each !== true) === [] && $c->get('many:99') === false, $c);
}

function times(Memcached $c, bool $binary): void
{
    $c->set('short', 'v', 1);
    $c->set('absolute', 'v', time() + 100);
    $c->set('touched', 'v', 1);
    if (!$binary) {
        // In the binary protocol this is a time in 2106.
        check('a negative time is over at once', $c->set('over', 'v', -1) && $c->get('over') === false, $c);
    }
    check('touch', $c->touch('touched', 100), $c);
    check('touch of nothing', !$c->touch('nothing', 100) && $c->getResultCode() === Memcached::RES_NOTFOUND, $c);
    usleep(2100000);
    check('expired', $c->get('short') === false, $c);
    check('not expired', $c->get('absolute') === 'v' && $c->get('touched') === 'v', $c);
}

function server(Memcached $c): void
{
    $versions = $c->getVersion();
    check('version', preg_match('/^\d+\.\d+\.\d+$/', (string) reset($versions)) === 1, $c);
    $stats = $c->getStats();
    $stats = reset($stats);
    check('stats', is_array($stats) && $stats['curr_items'] > 0 && $stats['pid'] > 0, $c);
    check('flush', $c->flush() && $c->get('n') === false, $c);
}

function sessions(int $port, bool $binary): void
{
    ini_set('session.save_handler', 'memcached');
    ini_set('session.save_path', "127.0.0.1:$port");
    ini_set('memcached.sess_binary_protocol', $binary ? '1' : '0');
    ini_set('session.use_cookies', '0');
    ini_set('session.cache_limiter', '');
    session_id('session' . random_int(0, PHP_INT_MAX));
    check('session opens', session_start());
    $_SESSION['basket'] = ['flour' => 2];
    session_write_close();
    $_SESSION = [];
    check('session opens again', session_start());
    check('session keeps', $_SESSION === ['basket' => ['flour' => 2]]);
    check('session ends', session_destroy());
}

foreach ([false, true] as $binary) {
    foreach (['tcp' => ['127.0.0.1', (int) $port], 'unix' => [$socket, 0]] as $transport => [$host, $number]) {
        $context = ($binary ? 'binary' : 'text') . " over $transport";
        $client = connect($host, $number, $binary);
        values($client);
        conditions($client);
        numbers($client, $binary);
        many($client);
        times($client, $binary);
        server($client);
        $client->quit();
    }
    $context = ($binary ? 'binary' : 'text') . ' sessions';
    sessions((int) $port, $binary);
}
fwrite(STDOUT, "done\n");
