--TEST--
Sessions in a cache, locked from their start to their end
--EXTENSIONS--
pcntl
--INI--
larder.enable_cli=1
session.save_handler=larder
session.use_cookies=0
session.use_strict_mode=1
session.cache_limiter=
session.gc_maxlifetime=2
--FILE--
<?php
// Sessions begin before the page has output.
ob_start();
session_start();
$id = session_id();
$_SESSION['count'] = 1;
$_SESSION['long'] = str_repeat('x', 5000);
session_write_close();
session_start();
var_dump($_SESSION['count'], strlen($_SESSION['long']));
session_write_close();

// Concurrent requests count one after the other.
$children = [];
for ($at = 0; $at < 4; ++$at) {
    if (($children[] = pcntl_fork()) === 0) {
        for ($round = 0; $round < 5; ++$round) {
            session_start();
            $count = $_SESSION['count'];
            usleep(2000);
            $_SESSION['count'] = $count + 1;
            session_write_close();
        }
        ob_end_clean();
        exit(0);
    }
}
// A request that is killed does not keep the lock.
if (($children[] = pcntl_fork()) === 0) {
    session_start();
    posix_kill(getmypid(), 9);
}
array_map(fn ($child) => pcntl_waitpid($child, $status), $children);
session_start(['read_and_close' => true]);
var_dump($_SESSION['count']);

// A new id has the items of the old one; the old session no longer exists.
session_start();
session_regenerate_id(true);
$new = session_id();
session_write_close();
session_id($id);
session_start();
var_dump($_SESSION, session_id() === $id);
session_destroy();
session_id($new);
session_start();
var_dump($_SESSION['count'], session_gc());
session_write_close();
sleep(3);
session_start();
var_dump($_SESSION);
session_write_close();

// Strict mode refuses ids that no request made.
session_id('planted');
session_start();
var_dump(session_id() === 'planted');
session_destroy();
ini_set('session.use_strict_mode', '0');
// The longest ids that PHP makes; two that differ at their ends.
foreach (['x', 'y'] as $end) {
    session_id(str_repeat('x', 255) . $end);
    var_dump(session_start(), $_SESSION);
    $_SESSION['end'] = $end;
    session_write_close();
}
session_id(str_repeat('x', 256));
session_start();
var_dump($_SESSION);
session_destroy();
?>
--EXPECTF--
int(1)
int(5000)
int(21)
array(0) {
}
bool(false)
int(21)
int(0)
array(0) {
}
bool(false)
bool(true)
array(0) {
}
bool(true)
array(0) {
}
array(1) {
  ["end"]=>
  string(1) "x"
}
