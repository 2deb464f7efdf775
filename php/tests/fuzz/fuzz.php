<?php
// Decodes damaged values: `fuzz.php SECS [SEED]`. It prints the seed, which repeats the run.

declare(strict_types=1);

const CASES = 2000;

/** Returns a random value that the compact form supports. */
function random_value(int $depth): mixed
{
    switch (mt_rand(0, $depth > 0 ? 11 : 8)) {
        case 0:
            return null;
        case 1:
            return mt_rand(0, 1) === 1;
        case 2:
            return mt_rand(-3, 60);
        case 3:
            return mt_rand() << mt_rand(0, 33);
        case 4:
            return -mt_rand();
        case 5:
            return [0.0, -0.0, NAN, INF, 1.5, mt_rand() / 7][mt_rand(0, 5)];
        case 6:
            return random_bytes(mt_rand(1, 300));
        case 7:
        case 8:
            return str_repeat('x', mt_rand(0, 20));
        default:
            return random_array($depth - 1);
    }
}

function random_array(int $depth): array
{
    $array = [];
    $is_list = mt_rand(0, 1) === 1;
    for ($count = mt_rand(0, 12); $count > 0; --$count) {
        $key = [mt_rand(0, 50), -mt_rand(), "k$count", str_repeat('k', mt_rand(0, 250))][mt_rand(0, 3)];
        $is_list ? $array[] = random_value($depth) : $array[$key] = random_value($depth);
    }
    return $array;
}

/** Returns bytes that a malicious program could write. */
function check_cases(): void
{
    $most = 1 << 20;
    $cases = [
        'nothing' => '',
        'no array' => "\x01",
        'another form' => "\x02\x06\x00",
        'a deep list' => "\x01" . str_repeat("\x06\x01", 100_000),
        'a deep map' => "\x01" . str_repeat("\x07\x01\x10", 100_000),
        'a large count' => "\x01\x06\xFF\xFF\xFF\xFF\x0F\x00",
        'the largest count' => "\x01\x06\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x00",
        'a long string' => "\x01\x06\x01\x05\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01x",
        'a number without an end' => "\x01\x06\x01\x03" . str_repeat("\xFF", 30),
        'a half double' => "\x01\x06\x01\x04abc",
        'a key twice' => "\x01\x07\x02\x41a\x00\x41a\x00",
        'a key that is an array' => "\x01\x07\x01\x06\x00\x00",
        'a key that is the text of a number' => "\x01\x07\x01\x415\x00",
        'bytes at the end' => "\x01\x06\x01\x00\x00",
        'an invalid type' => "\x01\x06\x01\x08",
        // Each list has as many items as there are bytes, and the first is the next list.
        'large counts in large counts' => "\x01" . str_repeat("\x06\x80\x80\x3E", 200) . str_repeat("\x00", $most - 10_000),
        'large maps in large maps' => "\x01" . str_repeat("\x07\x80\x80\x1F\x10", 200) . str_repeat("\x00", $most - 10_000),
    ];
    foreach ($cases as $what => $bytes) {
        fuzz_decode($bytes) and exit("FAILED: $what is a value\n");
    }
}

$seconds = (float)($argv[1] ?? 3);
$seed = (int)($argv[2] ?? random_int(1, 1 << 30));
echo "fuzz.php: seed $seed\n";
check_cases();
$end = microtime(true) + $seconds;
for ($cases = $values = 0; $cases === 0 || microtime(true) < $end; $cases += CASES, ++$seed) {
    mt_srand($seed);
    $corpus = [];
    while (count($corpus) < 40) {
        $corpus[] = fuzz_encode(random_array(mt_rand(0, 4))) ?? exit("FAILED: an array is not encoded, seed $seed\n");
    }
    $values += fuzz_run($corpus, $seed, CASES);
}
echo "$cases cases, $values of them values\n";
$values > $cases / 100 && $values < $cases * 99 / 100 or exit("FAILED: the cases are no mixture\n");
