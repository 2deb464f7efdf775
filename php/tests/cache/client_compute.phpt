--TEST--
A client of a server: getOrCompute, among all clients one process computes
--EXTENSIONS--
pcntl
--SKIPIF--
<?php if (!getenv('LARDERD')) die('skip LARDERD names no larderd'); ?>
--FILE--
<?php
require __DIR__ . '/run.inc';
use Larder\Client;

foreach (['with its memory' => ['--local-readers', 'same-uid'], 'by its socket' => []] as $how => $options) {
    echo $how, "\n";
    $socket = (isset($folder) ? $folder : $folder = new_folder()) . '/' . md5($how);
    $server = serve($socket, ...$options);
    $client = Client::connect($socket);
    $children = [];
    for ($at = 0; $at < 4; ++$at) {
        if (($children[] = pcntl_fork()) === 0) {
            $value = $client->getOrCompute('report', function (string $key) use ($client) {
                $client->increment('computed');
                usleep(300_000);
                return ["value of $key"];
            }, 60);
            $value === ['value of report'] or print("wrong value\n");
            posix_kill(getmypid(), 9);
        }
    }
    array_map(fn ($child) => pcntl_waitpid($child, $status), $children);
    var_dump($client->get('computed'), $client->getOrCompute('report', fn () => 'another'));

    try {
        $client->getOrCompute('thrown', fn () => throw new LogicException('no value'));
    } catch (LogicException $exception) {
        echo $exception->getMessage(), "\n";
    }
    // The lease has ended.
    $begin = hrtime(true);
    var_dump($client->getOrCompute('thrown', fn () => 'computed'), hrtime(true) - $begin < 1e9);

    // A stale value: one call computes it again, all other methods miss.
    $client->getOrCompute('page', fn () => 'old', 2, 60);
    var_dump($client->get('page'), $client->has('page'), $client->getMany(['page']));
    usleep(3_200_000);
    var_dump($client->get('page'), $client->has('page'), $client->getMany(['page']), $client->cas('page', 'old', 'x'), $client->touch('page', 10));
    $new = $client->getOrCompute('page', function () use ($socket, $client) {
        echo 'meanwhile: ', $client->getOrCompute('page', fn () => 'not called', 2, 60), "\n";
        return 'new';
    }, 100, 60);
    var_dump($new, $client->get('page'), $client->touch('page', 200));
    // php-memcached reads the seconds as flags of the program.
    $other = stream_socket_client("unix://$socket");
    fwrite($other, "mg page f t\r\n");
    [, $flags, $time] = explode(' ', trim(fgets($other)));
    var_dump($flags === 'f' . (60 << 16 | 0x8000), substr($time, 1) > 255);
    try {
        $client->getOrCompute('long', fn () => 1, 1, 65536);
    } catch (Larder\Exception $exception) {
        echo $exception->getMessage(), "\n";
    }
    proc_terminate($server, 9);
    proc_close($server);
}
// Without a server each process computes.
usleep(3_500_000);
var_dump($client->getOrCompute('gone', fn () => 'computed'));
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECTF--
with its memory
int(1)
array(1) {
  [0]=>
  string(15) "value of report"
}
no value
string(8) "computed"
bool(true)
string(3) "old"
bool(true)
array(1) {
  ["page"]=>
  string(3) "old"
}
NULL
bool(false)
array(0) {
}
bool(false)
bool(false)
meanwhile: old
string(3) "new"
string(3) "new"
bool(true)
bool(true)
bool(true)
staleFor must be 0 to 65535 seconds, and needs a time to live
by its socket
int(1)
array(1) {
  [0]=>
  string(15) "value of report"
}
no value
string(8) "computed"
bool(true)
string(3) "old"
bool(true)
array(1) {
  ["page"]=>
  string(3) "old"
}
NULL
bool(false)
array(0) {
}
bool(false)
bool(false)
meanwhile: old
string(3) "new"
string(3) "new"
bool(true)
bool(true)
bool(true)
staleFor must be 0 to 65535 seconds, and needs a time to live

Warning: Larder\Client::getOrCompute(): The cache %s in %s on line %d
string(8) "computed"
