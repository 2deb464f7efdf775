<?php
// Random scripts of apcu_* calls. A script prints a line for each call: the call, its result, and
// the warnings.

class Plain
{
    public $one = 1;
    protected $two = [2];
    private $three;
    public ?Plain $next = null;
}

class Magic
{
    public function __construct(public mixed $kept = null)
    {
    }

    public function __serialize(): array
    {
        return ['kept' => $this->kept];
    }

    public function __unserialize(array $data): void
    {
        $this->kept = [$data['kept'], apcu_exists('inner')];
    }
}

class Thrower
{
    public function __serialize(): array
    {
        throw new RuntimeException('no');
    }
}

class Named
{
    public function __toString(): string
    {
        return 'named';
    }
}

enum Suit: string
{
    case Hearts = 'h';
}

final class Script
{
    private array $keys;

    public function __construct(int $seed, private string $serializer)
    {
        mt_srand($seed);
        $long = str_repeat('k', 216);
        $this->keys = ['a', 'b', 'c', 'counter', 'n', '7', '-1', "with\0nul", '', "\xFF", "\xFFmark",
            $long, "{$long}1", "{$long}12", "{$long}123", str_repeat('x', 250),
            str_repeat('x', 251), str_repeat('y', 65536), 'inner', 'ünïcode', 'a.b:c/d#e'];
        set_error_handler(function (int $level, string $message): bool {
            echo "  $level: $message\n";
            return true;
        });
    }

    public function run(): void
    {
        for ($step = 0; $step < 60; ++$step) {
            $call = $this->pick(['store', 'store', 'store', 'add', 'fetch', 'fetch', 'fetch', 'exists',
                'delete', 'inc', 'dec', 'cas', 'entry', 'store_many', 'fetch_many', 'exist_many',
                'delete_many', 'expired', 'iterate', 'totals', 'odd', 'clear', 'count', 'delete_iterator']);
            echo "$step $call";
            try {
                $this->show($this->$call());
            } catch (Throwable $thrown) {
                echo "\n  ", $thrown::class, ': ', $thrown->getMessage(), "\n";
            }
        }
    }

    private function pick(array $from): mixed
    {
        return $from[mt_rand(0, count($from) - 1)];
    }

    private function key(): string
    {
        $key = $this->pick($this->keys);
        echo ' ', strlen($key) > 20 ? md5($key) : json_encode($key, JSON_INVALID_UTF8_SUBSTITUTE);
        return $key;
    }

    private function ttl(): int
    {
        return $this->pick([0, 0, 0, 100, 1000, 1 << 32, (1 << 32) + 50, (1 << 31) - 1]);
    }

    /** Prints a value with its references and types. */
    private function show(mixed $value): void
    {
        $text = serialize($value);
        echo "\n  ", strlen($text) > 2000 ? md5($text) . ' ' . strlen($text) : $text, "\n";
    }

    private function scalar(): mixed
    {
        return match (mt_rand(0, 9)) {
            0 => null,
            1 => (bool) mt_rand(0, 1),
            2 => mt_rand(-100, 100),
            3 => $this->pick([PHP_INT_MAX, PHP_INT_MIN, 47, 48, -1, 1 << 40]),
            4 => $this->pick([0.0, -0.0, 1.5, INF, -INF, 1e300, 5e-324, 0.1 + 0.2, 1e15, 123456789.125]),
            5 => '',
            6 => chr(mt_rand(0, 255)),
            7 => random_text(mt_rand(2, 300)),
            8 => random_text($this->pick([190, 191, 192, 193, 4095, 4096, 4097, 20000])),
            9 => (string) mt_rand(0, 1000),
        };
    }

    private function value(int $depth = 0): mixed
    {
        $kind = mt_rand(0, 19);
        if ($depth > 3 || $kind < 8) {
            return $this->scalar();
        }
        if ($kind < 14) {
            return $this->tree($depth);
        }
        return match ($kind) {
            14 => $this->referenced(),
            15 => new Plain(),
            16 => new Magic($this->value($depth + 1)),
            17 => Suit::Hearts,
            18 => (object) ['x' => $this->value($depth + 1)],
            // Other serializers continue after one of several values has thrown.
            default => $this->pick([new ArrayObject([1, 2]), [], [[]],
                ...($this->serializer !== 'php' ? [] : [fn () => 1, new Thrower()])]),
        };
    }

    private function tree(int $depth): array
    {
        $tree = [];
        $count = mt_rand(0, 12);
        $is_list = mt_rand(0, 1) === 1;
        for ($at = 0; $at < $count; ++$at) {
            $key = $is_list ? $at : $this->pick([$at * 3, "key$at", -$at, '', "\0x", "0$at", random_text(5)]);
            $tree[$key] = $this->value($depth + 1);
        }
        if ($count > 2 && mt_rand(0, 3) === 0) {
            unset($tree[array_key_last($tree)]);
        }
        if ($count > 4 && mt_rand(0, 3) === 0) {
            unset($tree[array_key_first($tree)]);
        }
        return $tree;
    }

    private function referenced(): array
    {
        $shared = [1, 'shared'];
        $array = ['one' => &$shared, 'two' => &$shared, 'three' => $this->scalar()];
        if (mt_rand(0, 1) === 1 && $this->serializer === 'php') {
            $shared[] = &$shared;
        }
        return $array;
    }

    private function store(): mixed
    {
        return apcu_store($this->key(), $this->value(), $this->ttl());
    }

    private function add(): mixed
    {
        return apcu_add($this->key(), $this->value(), $this->ttl());
    }

    /**
     * Stores an item with a negative time to live. APCu still lists such an item until the key is
     * stored again, so this method stores it at the end.
     */
    private function expired(): mixed
    {
        $key = $this->key();
        $ttl = $this->pick([-1, -100, 1 << 31, PHP_INT_MAX]);
        $results = [mt_rand(0, 1) ? apcu_store($key, 5, $ttl) : apcu_add($key, 5, $ttl),
            apcu_exists($key), apcu_fetch($key), apcu_cas($key, 5, 6)];
        apcu_exists($key) or $results[] = apcu_inc($key, 1, $success, $ttl);
        return [$results, apcu_store($key, 'x')];
    }

    private function fetch(): mixed
    {
        $value = apcu_fetch($this->key(), $success);
        return [$value, $success];
    }

    private function exists(): mixed
    {
        return apcu_exists($this->key());
    }

    private function delete(): mixed
    {
        return apcu_delete($this->key());
    }

    private function step(): int
    {
        return $this->pick([1, 2, -1, 1000, -7, PHP_INT_MAX, PHP_INT_MIN, 0, 99]);
    }

    private function inc(): mixed
    {
        $number = apcu_inc($this->key(), $this->step(), $success, $this->ttl());
        return [$number, $success];
    }

    private function dec(): mixed
    {
        $number = apcu_dec($this->key(), $this->step(), $success, $this->ttl());
        return [$number, $success];
    }

    private function cas(): mixed
    {
        $key = $this->key();
        $old = apcu_fetch($key);
        return apcu_cas($key, is_int($old) && mt_rand(0, 3) ? $old : 5, $this->step());
    }

    private function entry(): mixed
    {
        return apcu_entry($this->key(), function (string $key) {
            mt_rand(0, 9) === 0 and throw new LogicException('in the callback');
            return mt_rand(0, 4) === 0 ? apcu_entry('a', fn () => 'inner') : $this->value();
        }, $this->ttl());
    }

    private function some_keys(): array
    {
        return array_values(array_unique(array_map(fn () => $this->key(), range(0, mt_rand(0, 6)))));
    }

    private function store_many(): mixed
    {
        $items = [];
        foreach ($this->some_keys() as $key) {
            $items[$key] = $this->value();
        }
        $shared = 'shared';
        mt_rand(0, 2) === 0 and $items['r'] = &$shared;
        return mt_rand(0, 1) ? apcu_store($items, null, $this->ttl()) : apcu_add($items);
    }

    private function fetch_many(): mixed
    {
        $names = [...$this->some_keys(), ...(mt_rand(0, 5) ? [] : [5, null])];
        return [apcu_fetch($names, $success), $success];
    }

    private function exist_many(): mixed
    {
        return apcu_exists([...$this->some_keys(), ...(mt_rand(0, 5) ? [] : [5.5])]);
    }

    private function delete_many(): mixed
    {
        return apcu_delete([...$this->some_keys(), ...(mt_rand(0, 5) ? [] : [true])]);
    }

    private function search(): mixed
    {
        return $this->pick([null, '/^a/', '/^k+/', '/^kkkkk/', '#^x#', '/./', '/^with\0/', '/^a\.b/', '/^A/i',
            '/^a|^b/', '/^co?/', '/^ü/u', '', ['a', 'b', '', 'missing', 7], '/1$/', '/^-1/', '/^c{0}/',
            '/^in(ner)?/', '{^a}', '/^\w/', '/^a b/x']);
    }

    private function iterate(): mixed
    {
        $formats = [APC_ITER_KEY, APC_ITER_VALUE, APC_ITER_KEY | APC_ITER_VALUE | APC_ITER_TYPE, APC_ITER_NONE,
            APC_ITER_DTIME | APC_ITER_REFCOUNT | APC_ITER_TTL];
        $found = [];
        $iterator = new APCUIterator($this->search(), $this->pick($formats), mt_rand(0, 5));
        foreach ($iterator as $key => $item) {
            if (isset($item['ttl'])) {
                // Larder computes the time to live from the time of the store, and may be a second
                // off.
                $item['ttl'] = round($item['ttl'], -1);
            }
            $found[md5($key)] = $item;
        }
        ksort($found);
        return $found;
    }

    private function totals(): mixed
    {
        return (new APCUIterator($this->search()))->getTotalCount();
    }

    private function delete_iterator(): mixed
    {
        $search = $this->search();
        return $search === null ? null : apcu_delete(new APCUIterator($search, APC_ITER_KEY));
    }

    private function odd(): mixed
    {
        $calls = [
            fn () => apcu_store(5, 1), fn () => apcu_store(null), fn () => apcu_store('a'),
            fn () => apcu_store([]), fn () => apcu_store(new Named(), 1), fn () => apcu_fetch(7),
            fn () => apcu_fetch(null), fn () => apcu_fetch(1.5), fn () => apcu_fetch(new Named()),
            fn () => apcu_fetch(new Plain()), fn () => apcu_exists(7), fn () => apcu_exists(true),
            fn () => apcu_exists(new Plain()), fn () => apcu_delete(7), fn () => apcu_delete(null),
            fn () => apcu_store('f', fopen('php://memory', 'r')), fn () => apcu_add('f', STDIN),
            fn () => apcu_store('f', [STDIN]), fn () => apcu_fetch('f'),
            fn () => apcu_inc('a', 1.5), fn () => apcu_inc([]), fn () => apcu_cas('a', 'x', 1),
            fn () => apcu_entry('q', 'no_such_function'), fn () => apcu_entry('q', 'strlen'),
            fn () => apcu_key_info('missing'), fn () => apcu_enabled(), fn () => apcu_store(),
            fn () => apcu_fetch(), fn () => apcu_store('a', 1, 2, 3), fn () => apcu_clear_cache(1),
            fn () => new APCUIterator(list: 5), fn () => clone new APCUIterator(),
            fn () => (new APCUIterator())->valid(1), fn () => apcu_store('a', 1, 'x'),
            fn () => $this->info_keys(false), fn () => array_keys(apcu_sma_info(true)),
            fn () => $this->info_keys(true), fn () => serialize(new APCUIterator()),
        ];
        $at = mt_rand(0, count($calls) - 1);
        echo " $at";
        $result = $calls[$at]();
        return is_object($result) ? $result::class : $result;
    }

    /** Returns the keys of apcu_cache_info, without two that older versions of APCu do not have. */
    private function info_keys(bool $limited): array
    {
        $newer = ['cleanups', 'defragmentations'];
        return array_values(array_diff(array_keys(apcu_cache_info($limited)), $newer));
    }

    private function clear(): mixed
    {
        return mt_rand(0, 3) === 0 ? apcu_clear_cache() : null;
    }

    private function count(): mixed
    {
        $names = array_column(apcu_cache_info()['cache_list'], 'info');
        sort($names);
        return array_map(md5(...), $names);
    }
}

function random_text(int $bytes): string
{
    $text = '';
    while (strlen($text) < $bytes) {
        $text .= chr(mt_rand(0, 255));
    }
    return $text;
}
