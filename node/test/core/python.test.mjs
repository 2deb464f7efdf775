// Node and Python use one file: values of all types, and one load.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cache } from 'larder-cache';

import { newPath, Program, refuses, root } from './support.mjs';

const isBuilt = existsSync(join(root, 'python/larder_cache/_larder.abi3.so'));
const hasPython = isBuilt && spawnSync('python3', ['--version']).status === 0;
const options = { skip: !hasPython && 'the Python package is not built', timeout: 60_000 };

const PRELUDE = `
import sys, time
from larder_cache import Cache, LoadError

cache = Cache(shared=sys.argv[1], memory="16M", serializer="json")

def say(text):
    print(text, flush=True)
`;

function python(script, path) {
    const env = { PYTHONPATH: join(root, 'python'), PYTHONDONTWRITEBYTECODE: '1' };
    return new Program('python3', ['-c', PRELUDE + script, path], env);
}

function newCache() {
    return new Cache({ memory: '16M', shared: newPath() });
}

/** Values of JavaScript, and what Python shows of them. */
const VALUES = [
    ['text ü', "'text ü'"],
    ['', "''"],
    [Buffer.from([0, 255]), "b'\\x00\\xff'"],
    [17, '17'],
    [-5, '-5'],
    [2n ** 53n, '9007199254740992'],
    [-(2n ** 63n), '-9223372036854775808'],
    [1.5, '1.5'],
    [-0, '-0.0'],
    [1e300, '1e+300'],
    [Infinity, 'inf'],
    [true, 'True'],
    [false, 'False'],
    [{ a: [1, null, 'ü'] }, "{'a': [1, None, 'ü']}"],
];

test('Python reads the values of Node, and Node those of Python', options, async () => {
    const cache = newCache();
    const program = python(`
for line in sys.stdin:
    key = line.strip()
    value = cache[key]
    cache.set("from " + key, value)
    say(repr(value))
`, cache.path);
    for (const [number, [value, shown]] of VALUES.entries()) {
        cache.set(`k${number}`, value);
        assert.equal(await program.ask(`k${number}`), shown);
        assert.deepEqual(cache.get(`from k${number}`), value);
    }
    assert.equal(await program.end(), 0);
});

test('Node reads null and integers of Python, and refuses what only Python can read', options, async () => {
    const cache = newCache();
    const program = python(`
cache["none"] = None
cache["large"] = 2**63 - 1
cache["nan"] = float("nan")
cache["\\u00fc"] = "key"
cache["n"] = 5
say("ready")
sys.stdin.readline()
say(repr((cache["n"], cache.get("null", "absent"))))
`, cache.path);
    assert.equal(await program.line(), 'ready');
    assert.equal(cache.get('none'), null);
    assert.equal(cache.get('large'), 2n ** 63n - 1n);
    assert.ok(Number.isNaN(cache.get('nan')));
    assert.equal(cache.get('ü'), 'key');
    assert.equal(cache.increment('n', 10), 15);
    cache.set('null', null);
    assert.equal(await program.ask('go'), '(15, None)');
    assert.equal(await program.end(), 0);

    const pickled = newCache();
    const other = python(`
with Cache(shared=sys.argv[1], serializer="pickle") as cache:
    cache["k"] = {1, 2}
say("stored")
`, pickled.path);
    assert.equal(await other.line(), 'stored');
    refuses('ERR_LARDER_CODEC', () => pickled.get('k'), /pickled by Python/);
});

const LOADS = `
def loader():
    say("loading")
    command = sys.stdin.readline().strip()
    if command == "fail":
        raise ValueError("the table is empty")
    return {"by": command}

sys.stdin.readline()
try:
    say(cache.get_or_load("k", loader, ttl=60))
except (LoadError, ValueError) as error:
    say(f"{type(error).__name__}: {error}")
`;

test('Node waits for a load of Python', options, async () => {
    const cache = newCache();
    const program = python(LOADS, cache.path);
    assert.equal(await program.ask('begin'), 'loading');
    const unexpected = () => assert.fail('Python loads the value');
    const waiting = [1, 2].map(() => cache.wrap('k', 60_000, unexpected));
    await sleep(100);
    assert.equal(await program.ask('python'), "{'by': 'python'}");
    assert.deepEqual(await Promise.all(waiting), [{ by: 'python' }, { by: 'python' }]);
    assert.equal(await program.end(), 0);
});

test('an error in Python reaches Node', options, async () => {
    const cache = newCache();
    const program = python(LOADS, cache.path);
    assert.equal(await program.ask('begin'), 'loading');
    const waiting = cache.wrap('k', 60_000, () => assert.fail('Python loads the value'));
    const refused = assert.rejects(waiting, { code: 'ERR_LARDER_LOAD', loader: 'ValueError', message: /table is empty/ });
    await sleep(100);
    assert.equal(await program.ask('fail'), 'ValueError: the table is empty');
    await refused;
});

test('Python waits for a load of Node, and receives its error', options, async () => {
    for (const fails of [false, true]) {
        const cache = newCache();
        const program = python(LOADS, cache.path);
        let settle;
        const load = cache.wrap('k', 60_000, () => new Promise((resolve, reject) => {
            settle = fails ? () => reject(new RangeError('no rows')) : () => resolve([1]);
        }));
        const outcome = Promise.allSettled([load]);
        const answer = program.ask('begin');
        // Python starts within this time; it asks for nothing if it waits.
        await sleep(1000);
        settle();
        assert.equal((await outcome)[0].status, fails ? 'rejected' : 'fulfilled');
        const want = fails ? /^LoadError: .*RangeError: no rows/ : /^\[1\]$/;
        assert.match(await answer, want);
        assert.equal(await program.end(), 0);
    }
});

test('a killed program in Python leaves its load to Node', options, async () => {
    const cache = newCache();
    const program = python(LOADS, cache.path);
    assert.equal(await program.ask('begin'), 'loading');
    const waiting = cache.wrap('k', 60_000, () => 'ours');
    await sleep(100);
    const began = performance.now();
    await program.kill();
    assert.equal(await waiting, 'ours');
    assert.ok(performance.now() - began < 1000);
});
