--TEST--
apcu_entry runs one callback at a time for a key
--SKIPIF--
<?php if (!extension_loaded('pcntl')) die('skip pcntl required'); ?>
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
$calls = tempnam(sys_get_temp_dir(), 'calls');
$slow = function (string $key) use ($calls) {
    file_put_contents($calls, 'x', FILE_APPEND | LOCK_EX);
    usleep(300_000);
    return "value of $key";
};
for ($child = 0; $child < 5; ++$child) {
    if (pcntl_fork() === 0) {
        apcu_entry('slow', $slow) === 'value of slow' or print("a child has another value\n");
        exit(0);
    }
}
while (pcntl_wait($status) > 0) {
}
var_dump(file_get_contents($calls));

// Callbacks that end before another process asks for the lease.
for ($child = 0; $child < 4; ++$child) {
    if (pcntl_fork() === 0) {
        for ($key = 0; $key < 10_000; ++$key) {
            apcu_entry("quick $key", fn () => apcu_inc('quick'));
        }
        exit(0);
    }
}
while (pcntl_wait($status) > 0) {
}
var_dump(apcu_fetch('quick'));

// Another key does not wait.
$pid = pcntl_fork();
if ($pid === 0) {
    apcu_entry('other', function () {
        sleep(60);
    });
    exit(0);
}
usleep(100_000);
$begun = microtime(true);
var_dump(apcu_entry('mine', fn () => 'at once'), microtime(true) - $begun < 0.5);

// A killed process releases its key.
exec("kill -9 $pid");
pcntl_waitpid($pid, $status);
$begun = microtime(true);
var_dump(apcu_entry('other', fn () => 'in its place'), microtime(true) - $begun < 1);
unlink($calls);
?>
--EXPECTF--
string(1) "x"
int(10000)
string(7) "at once"
bool(true)
string(12) "in its place"
bool(true)
