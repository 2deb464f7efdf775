--TEST--
Bytes of another program under the mark of an array are an array or miss
--INI--
memory_limit=64M
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
$server = serve("$folder/socket");
$client = Larder\Client::connect("$folder/socket");
$other = stream_socket_client("unix://$folder/socket");

/** Stores bytes as any client of the server can. */
function store($other, string $bytes): void
{
    fwrite($other, 'set key 0 0 ' . strlen($bytes) . "\r\n$bytes\r\n");
    fgets($other) === "STORED\r\n" or exit("not stored\n");
}

function bytes_of($other): string
{
    fwrite($other, "get key\r\n");
    $count = (int)explode(' ', fgets($other))[3];
    $bytes = stream_get_contents($other, $count);
    fgets($other) . fgets($other) === "\r\nEND\r\n" or exit("no value\n");
    return $bytes;
}

mt_srand(7);
$found = ['array' => 0, 'missing' => 0];
foreach ([[1, 'two', 3.5, [null, true, []]], ['a' => ['b' => ['c' => -1 << 40]], 7 => str_repeat('x', 500)]] as $value) {
    $client->set('key', $value);
    $bytes = bytes_of($other);
    store($other, $bytes);
    $client->get('key') === $value or exit("the bytes do not come back\n");
    for ($case = 0; $case < 2000; ++$case) {
        $damaged = $bytes;
        for ($round = mt_rand(1, 3); $round > 0; --$round) {
            $at = mt_rand(6, strlen($damaged) - 1);
            $damaged = match (mt_rand(0, 2)) {
                0 => substr_replace($damaged, chr(mt_rand(0, 255)), $at, 1),
                1 => substr($damaged, 0, max($at, 8)),
                2 => substr($damaged, 0, $at) . substr($bytes, mt_rand(6, strlen($bytes) - 1)),
            };
        }
        store($other, $damaged);
        $result = $client->get('key');
        $result === null || is_array($result) or exit('neither an array nor missing: ' . bin2hex($damaged) . "\n");
        ++$found[$result === null ? 'missing' : 'array'];
    }
}
var_dump($found['array'] > 20, $found['missing'] > 20);

// Counts that ask for the memory of all bytes, again and again.
store($other, "\0Lrd\x09\x01" . str_repeat("\x07\x80\x80\x18\x10", 150) . str_repeat("\0", 600_000));
var_dump($client->get('key'));
// A key that PHP cannot find as a text.
store($other, "\0Lrd\x09\x01\x07\x01\x415\x00");
var_dump($client->get('key'));
proc_terminate($server);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
bool(true)
bool(true)
NULL
NULL
