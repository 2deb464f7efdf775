--TEST--
Two processes compute entries that depend on each other
--SKIPIF--
<?php if (!extension_loaded('pcntl')) die('skip pcntl required'); ?>
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
function compute(string $outer, string $inner): void
{
    $begun = microtime(true);
    $value = apcu_entry($outer, function () use ($outer, $inner) {
        apcu_store("has $outer", true);
        while (!apcu_exists("has $inner")) {
            usleep(1000);
        }
        return "$outer of " . apcu_entry($inner, fn() => "a new $inner");
    });
    $took = microtime(true) - $begun;
    echo $value, $took < 1 ? '' : " after $took s", "\n";
}

$pid = pcntl_fork();
if ($pid === 0) {
    ob_start();
    compute('x', 'y');
    apcu_store('printed', ob_get_clean());
    exit;
}
compute('y', 'x');
pcntl_waitpid($pid, $status);
echo apcu_fetch('printed');
?>
--EXPECTREGEX--
y of (a new x|x of a new y)
x of (a new y|y of a new x)
