--TEST--
Children of a fork share the cache
--SKIPIF--
<?php if (!extension_loaded('pcntl')) die('skip pcntl required'); ?>
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
// Fewer under valgrind: there 40 processes would hold a lock longer than a stopped process may.
$children = (int) (getenv('TEST_CHILDREN') ?: 40);
apcu_store('counter', 0);
for ($child = 0; $child < $children; ++$child) {
    if (pcntl_fork() === 0) {
        apcu_store("child$child", ['pid' => getmypid()]);
        for ($step = 0; $step < 100; ++$step) {
            apcu_inc('counter');
            apcu_inc(str_repeat('long', 100));
        }
        apcu_inc('negative', -3);
        exit(0);
    }
}
while (pcntl_wait($status) > 0) {
}
var_dump(apcu_fetch('counter') / $children, apcu_fetch(str_repeat('long', 100)) / $children);
var_dump(apcu_fetch('negative') / $children);
var_dump((new APCUIterator('/^child/'))->getTotalCount() === $children);

// A killed child delays no other process.
for ($round = 0; $round < 10; ++$round) {
    $pid = pcntl_fork();
    if ($pid === 0) {
        for (;;) {
            apcu_store('hot' . mt_rand(0, 9), str_repeat('h', mt_rand(0, 5000)));
        }
    }
    usleep(mt_rand(1000, 20000));
    exec("kill -9 $pid");
    pcntl_waitpid($pid, $status);
    for ($at = 0; $at < 10; ++$at) {
        apcu_store("hot$at", 'after') or print("hot$at is not stored\n");
        apcu_fetch("hot$at") === 'after' or print("hot$at is not found\n");
    }
}
?>
--EXPECTF--
int(100)
int(100)
int(-3)
bool(true)
