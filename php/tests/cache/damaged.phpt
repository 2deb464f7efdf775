--TEST--
Bytes that another program marks as an array are an array or a miss
--SKIPIF--
<?php if (!getenv('LARDERD')) die('skip LARDERD names no larderd'); ?>
--INI--
memory_limit=64M
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
$server = serve("$folder/socket");
$client = Larder\Client::connect("$folder/socket");
$other = stream_socket_client("unix://$folder/socket");

/** Stores bytes with the flags of an array, as any client of the server can. */
function store($other, string $bytes): void
{
    fwrite($other, 'set key 9 0 ' . strlen($bytes) . "\r\n$bytes\r\n");
    fgets($other) === "STORED\r\n" or exit("not stored\n");
}

$whole = [
    "\x01\x06\x04\x11\x43two\x04" . pack('e', 3.5) . "\x06\x03\x00\x02\x06\x00" => [1, 'two', 3.5, [null, true, []]],
    "\x01\x07\x02\x41a\x07\x01\x41b\x17\x17\x05\xF4\x03" . str_repeat('x', 500)
        => ['a' => ['b' => 7], 7 => str_repeat('x', 500)],
];
mt_srand(7);
$found = ['array' => 0, 'missing' => 0];
foreach ($whole as $bytes => $value) {
    store($other, $bytes);
    $client->get('key') === $value or exit("the bytes do not come back\n");
    for ($case = 0; $case < 2000; ++$case) {
        $damaged = $bytes;
        for ($round = mt_rand(1, 3); $round > 0; --$round) {
            $at = mt_rand(1, strlen($damaged) - 1);
            $damaged = match (mt_rand(0, 2)) {
                0 => substr_replace($damaged, chr(mt_rand(0, 255)), $at, 1),
                1 => substr($damaged, 0, max($at, 2)),
                2 => substr($damaged, 0, $at) . substr($bytes, mt_rand(1, strlen($bytes) - 1)),
            };
        }
        store($other, $damaged);
        $result = $client->get('key');
        $result === null || is_array($result) or exit('neither an array nor missing: ' . bin2hex($damaged) . "\n");
        ++$found[$result === null ? 'missing' : 'array'];
    }
}
var_dump($found['array'] > 20, $found['missing'] > 20);

// Nested counts that each claim as many items as there are bytes.
store($other, "\x01" . str_repeat("\x07\x80\x80\x18\x10", 150) . str_repeat("\0", 600_000));
var_dump($client->get('key'));
// A key that PHP cannot look up as a string.
store($other, "\x01\x07\x01\x415\x00");
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
