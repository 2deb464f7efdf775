--TEST--
Exceptions, exit and values that cannot be stored
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
class Thrower
{
    public function __serialize(): array
    {
        throw new RuntimeException('no');
    }
}

class Unreadable
{
    public function __serialize(): array
    {
        return [];
    }

    public function __unserialize(array $data): void
    {
        throw new RuntimeException('unreadable');
    }
}

function attempt(callable $call): void
{
    try {
        var_dump($call());
    } catch (Throwable $thrown) {
        echo $thrown::class, ': ', $thrown->getMessage(), "\n";
    }
}

apcu_store('key', 'before');
attempt(fn () => apcu_store('key', fopen('php://memory', 'r')));
attempt(fn () => apcu_store('key', fn () => 1));
attempt(fn () => apcu_store('key', [1, [fn () => 1]]));
attempt(fn () => apcu_store('key', new Thrower()));
attempt(fn () => apcu_fetch('key'));
attempt(fn () => apcu_store('key', [fopen('php://memory', 'r')]));
attempt(fn () => apcu_fetch('key'));
attempt(fn () => apcu_store('u', new Unreadable()));
attempt(fn () => apcu_fetch('u'));

attempt(fn () => apcu_entry('entry', fn () => throw new LogicException('in the callback')));
attempt(fn () => apcu_exists('entry'));
attempt(fn () => apcu_entry('entry', fn (string $key) => "computed $key"));
attempt(fn () => apcu_entry('entry', fn () => 'not called'));
attempt(fn () => apcu_entry('re', fn () => apcu_entry('re', fn () => 'inner') . ' outer'));
attempt(fn () => apcu_fetch('re'));
attempt(function () {
    $entry = function () {
        return apcu_entry('fiber', function () {
            Fiber::suspend();
            return 'value of a fiber';
        });
    };
    $fibers = [new Fiber($entry), new Fiber($entry)];
    array_map(fn ($fiber) => $fiber->start(), $fibers);
    array_map(fn ($fiber) => $fiber->resume(), $fibers);
    return $fibers[0]->getReturn();
});
register_shutdown_function(function () {
    echo "at shutdown: ", apcu_entry('exits', fn () => 'computed again'), "\n";
});
apcu_entry('exits', function () {
    echo "exit\n";
    exit(0);
});
?>
--EXPECTF--

Warning: apcu_store(): Cannot store resources in apcu cache in %s on line %d
bool(false)
Exception: Serialization of 'Closure' is not allowed
Exception: Serialization of 'Closure' is not allowed
RuntimeException: no
string(6) "before"
bool(true)
array(1) {
  [0]=>
  int(0)
}
bool(true)
%ARuntimeException: unreadable
LogicException: in the callback
bool(false)
string(14) "computed entry"
string(14) "computed entry"
string(11) "inner outer"
string(5) "inner"
string(16) "value of a fiber"
exit
at shutdown: computed again
