--TEST--
A client of a server: getMany sends all keys before it reads a value
--EXTENSIONS--
pcntl
--FILE--
<?php
require __DIR__ . '/run.inc';

const KEYS = 200;
$socket = new_folder() . '/socket';
$listener = stream_socket_server("unix://$socket");
if (($child = pcntl_fork()) === 0) {
    // A server that answers after it has received all requests. It does not pass its memory.
    $client = stream_socket_accept($listener);
    fgets($client);
    fwrite($client, "ERROR\r\n");
    for ($at = 0, $answers = ''; $at < KEYS; ++$at) {
        [$command, $key] = explode(' ', fgets($client));
        $answers .= $at % 3 === 0 ? "EN\r\n" : 'VA ' . strlen($key) . " f0 c1 t-1\r\n$key\r\n";
    }
    fwrite($client, $answers);
    fgets($client);
    posix_kill(getmypid(), 9);
}
$keys = array_map(fn ($at) => "key-$at", range(0, KEYS - 1));
$found = Larder\Client::connect($socket, ['timeoutMs' => 3000])->getMany($keys);
$expected = array_filter(array_combine($keys, $keys), fn ($key) => substr($key, 4) % 3 !== 0);
var_dump($found === $expected, count($found));
posix_kill($child, 9);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
bool(true)
int(133)
