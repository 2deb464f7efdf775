--TEST--
A client of a server: values, counters, keys
--SKIPIF--
<?php if (!getenv('LARDERD')) die('skip LARDERD names no larderd'); ?>
--FILE--
<?php
require __DIR__ . '/run.inc';
use Larder\Client;

$socket = new_folder() . '/socket';
$server = serve($socket, '--local-readers', 'same-uid');
$client = Client::connect($socket);
$values = [null, true, false, 0, -1, 5, PHP_INT_MAX, PHP_INT_MIN, 1.5, INF, '', 'x', '5', '-5', '007', '0', "\0Lrd\0x", "\0Lrd",
    str_repeat('long', 5000), [], [1, 2], ['a' => ['b' => null]], (string) PHP_INT_MAX, '99999999999999999999'];
foreach ($values as $at => $value) {
    $client->set("key $at", $value) or print("$at is not stored\n");
    $client->get("key $at", 'missing') === $value or print("$at differs\n");
}
var_dump($client->getMany(['key 5', 'missing', 'key 20']));
var_dump($client->add('n', 1), $client->add('n', 1), $client->replace('n', 7), $client->increment('n', 5), $client->decrement('n', 100), $client->get('n'));
var_dump($client->increment('new', 3, 100), $client->decrement('other'), $client->has('new'), $client->touch('new', 1), $client->touch('missing'));
var_dump($client->delete('n'), $client->delete('n'), $client->deleteMany(['key 1', 'key 2', 'missing']), $client->setMany(['m' => 1, 7 => 2]));
sleep(2);
var_dump($client->get('new'));
// Compare and set.
$client->set('list', [1]);
var_dump($client->cas('list', [2], [3]), $client->cas('list', [1], [1, 2], 100), $client->cas('none', 1, 2), $client->get('list'));
var_dump($client->cas('m', 1, 10), $client->decrement('m'), $client->cas('m', '9', 'x'), $client->cas('m', 9, 1));
foreach (['deletePrefix' => ['m'], 'iterate' => [], 'keys' => [], 'clear' => [], 'stats' => []] as $method => $arguments) {
    try {
        $client->$method(...$arguments);
        echo "no exception\n";
    } catch (Larder\Exception $exception) {
        echo $method, ': ', explode(':', $exception->getMessage())[0], "\n";
    }
}
// Many keys, and values that do not fit into the memory of one request.
$many = [];
for ($at = 0; $at < 300; ++$at) {
    $many["many $at"] = str_repeat("$at ", $at % 50 === 0 ? 50_000 : 10);
}
var_dump($client->setMany($many), $client->getMany(array_keys($many)) === $many, $client->getMany([]), count($client->getMany(new ArrayIterator(['m', 'many 1', 'm', 'none']))));
// Values as other clients read and store them.
$other = stream_socket_client("unix://$socket");
$ask = function (string $text) use ($other) { fwrite($other, "$text\r\n"); return trim(fgets($other)); };
var_dump($ask('mg m v'), trim(fgets($other)), $ask("mg m f"), $ask("mg m v"), trim(fgets($other)), $ask("ms flags 1 F1\r\n5"), $client->get('flags'), $ask("ms plain 1\r\n5"), $client->get('plain'), $ask("ms packed 1 F16\r\nx"), $client->get('packed'));
var_dump($ask("ms gadget 19 F4\r\nO:8:\"stdClass\":0:{}"), $client->get('gadget'));
foreach ([fn () => $client->get(str_repeat('x', 251)), fn () => $client->get(''), fn () => $client->increment('key 11'),
    fn () => $client->set('o', new stdClass()), fn () => $client->set('a', 1, 0), fn () => Client::connect($socket, ['timeout' => 1])] as $call) {
    try {
        $call();
        echo "no exception\n";
    } catch (Larder\Exception $exception) {
        echo $exception->getMessage(), "\n";
    }
}
var_dump($client->set(str_repeat('x', 250), 1), Client::connect($socket, ['classes' => '*'])->set('o', new ArrayObject([1])),
    Client::connect($socket, ['classes' => ['ArrayObject']])->get('o')->count());
// After the server ends, reads miss, with one warning. The client finds a new server.
proc_terminate($server, 9);
proc_close($server);
// Its memory is read for three seconds.
sleep(4);
var_dump($client->get('m'), $client->set('m', 1));
$server = serve($socket);
var_dump($client->set('m', 2), $client->get('m'));
proc_terminate($server, 9);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECTF--
array(2) {
  ["key 5"]=>
  int(5)
  ["key 20"]=>
  array(2) {
    [0]=>
    int(1)
    [1]=>
    int(2)
  }
}
bool(true)
bool(false)
bool(true)
int(12)
int(0)
int(0)
int(3)
int(0)
bool(true)
bool(true)
bool(false)
bool(true)
bool(false)
int(2)
bool(true)
NULL
bool(false)
bool(true)
bool(false)
array(2) {
  [0]=>
  int(1)
  [1]=>
  int(2)
}
bool(true)
int(9)
bool(false)
bool(true)
deletePrefix: Larder\Client has no deletePrefix()
iterate: Larder\Client has no iterate()
keys: Larder\Client has no keys()
clear: Larder\Client has no clear()
stats: Larder\Client has no stats()
bool(true)
bool(true)
array(0) {
}
int(2)
string(4) "VA 1"
string(1) "1"
string(5) "HD f1"
string(4) "VA 1"
string(1) "1"
string(2) "HD"
int(5)
string(2) "HD"
string(1) "5"
string(2) "HD"
NULL

Warning: Larder\Client::get(): A stored object has a class that larder.unserialize_classes does not allow, so its key misses in %s on line %d
string(2) "HD"
NULL
A key on a server must have at most 250 bytes
A key must have at least one byte
The value is not an integer
Objects of the class stdClass are not allowed: see larder.unserialize_classes
A time to live must be at least one second, or null: 0 given
Unknown option timeout: the options are timeoutMs, classes and serializer
bool(true)
bool(true)
int(1)
NULL
bool(false)
bool(true)
int(2)
