--TEST--
A process beyond the limit of a file reads, and warns about its changes until another one ends
--INI--
larder.processes=2
--FILE--
<?php
require __DIR__ . '/run.inc';
$path = new_folder() . '/cache';
$cache = Larder\Cache::open($path);
$cache->set('key', 'value');
// The second process holds the last row of the file until its input ends.
$code = '$cache = Larder\Cache::open($argv[1]); $cache->get("key"); echo "ready\n"; fgets(STDIN);';
$command = [PHP_BINARY, '-n', '-d', 'extension=' . getenv('LARDER_SO'), '-r', $code, $path];
$second = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $pipes);
echo fgets($pipes[1]);

$code = '$cache = Larder\Cache::open($argv[1]);
    var_dump($cache->get("key"), $cache->has("key"), $cache->delete("key"), $cache->set("key", 1));';
$command = [PHP_BINARY, '-n', '-d', 'display_errors=1', '-d', 'html_errors=0', '-d',
    'extension=' . getenv('LARDER_SO'), '-r', $code, $path];
$third = implode(' ', array_map(escapeshellarg(...), $command));
passthru($third);
var_dump($cache->get('key'));

fclose($pipes[0]);
proc_close($second);
passthru($third);
var_dump($cache->get('key'));
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECTF--
ready

Warning: Larder\Cache::delete(): This process cannot change the cache: 2 processes use the cache, and it has no room for another; end one, or create the cache for more (reads do not fail) in %s on line %d
string(5) "value"
bool(true)
bool(false)
bool(false)
string(5) "value"
string(5) "value"
bool(true)
bool(true)
bool(true)
int(1)
