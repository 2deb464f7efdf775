// The methods of a cache: those of a Map, counters, tokens, times to live, several keys.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cache } from 'larder-cache';

import { message, newPath, refuses, thread } from './support.mjs';

function cacheOf(options) {
    return new Cache({ memory: '16M', ...options });
}

function filled(count, options) {
    const cache = cacheOf(options);
    for (let number = 0; number < count; number += 1) cache.set(`k${number}`, number);
    return cache;
}

test('a cache is used like a Map', () => {
    const cache = cacheOf();
    assert.equal(cache.set('a', 1).set('b', { two: 2 }), cache);
    assert.equal(cache.size, 2);
    assert.equal(cache.has('a'), true);
    assert.equal(cache.has('c'), false);
    assert.equal(cache.get('c'), undefined);
    assert.deepEqual(new Map(cache), new Map([['a', 1], ['b', { two: 2 }]]));
    assert.deepEqual([...cache.keys()].sort(), ['a', 'b']);
    assert.deepEqual([...cache.values()].length, 2);
    const seen = [];
    const self = {};
    cache.forEach(function each(value, key, from) {
        assert.equal(this, self);
        assert.equal(from, cache);
        seen.push([key, value]);
    }, self);
    assert.deepEqual(new Map(seen), new Map(cache.entries()));
    assert.equal(cache.delete('a'), true);
    assert.equal(cache.delete('a'), false);
    cache.clear();
    assert.deepEqual([...cache], []);
    assert.equal(cache.has('b'), false);
    assert.equal(Object.prototype.toString.call(cache), '[object Cache]');
    assert.equal(cache.path, null);
});

test('iterators are those of the language, and may end early', () => {
    const cache = filled(1000);
    for (const walk of [cache.keys(), cache.values(), cache.entries(), cache[Symbol.iterator]()]) {
        assert.equal(walk[Symbol.iterator](), walk);
        assert.equal(walk.next().done, false);
        assert.deepEqual(walk.return(), { value: undefined, done: true });
        assert.equal(walk.next().done, true);
    }
    for (const [key] of cache) {
        assert.match(key, /^k\d+$/);
        break;
    }
    const [first, second] = cache.keys();
    assert.notEqual(first, second);
});

test('a walk during writes returns each item that stays exactly once', () => {
    const cache = filled(2000);
    const seen = [];
    for (const key of cache.keys('k')) {
        seen.push(key);
        cache.set(`new${seen.length}`, 1).delete(`new${seen.length - 5}`);
        cache.set(key, 'another value, which is longer');
    }
    assert.equal(seen.length, 2000);
    assert.equal(new Set(seen).size, 2000);
    let count = 0;
    for (const [key] of cache.entries('k')) {
        cache.delete(key);
        count += 1;
    }
    assert.equal(count, 2000);
    assert.deepEqual([...cache.keys('k')], []);
    for (const key of filled(500).set('x', 1).keys()) {
        if (key === 'x') cache.clear();
    }
});

test('prefixes select keys, as text and as bytes', () => {
    const cache = cacheOf();
    for (const key of ['a:1', 'a:2', 'ab', 'b', 'ü:1']) cache.set(key, key);
    assert.deepEqual([...cache.keys('a:')].sort(), ['a:1', 'a:2']);
    assert.deepEqual([...cache.keys(Buffer.from('a'))].sort(), ['a:1', 'a:2', 'ab']);
    assert.deepEqual([...cache.values('ü')], ['ü:1']);
    assert.deepEqual([...cache.entries('b')], [['b', 'b']]);
    assert.equal(cache.removePrefix('a:'), 2);
    assert.equal(cache.removePrefix('a:'), 0);
    assert.equal(cache.removePrefix(Buffer.from('ü')), 1);
    assert.deepEqual([...cache.keys()].sort(), ['ab', 'b']);
    assert.equal(cache.removePrefix(''), 2);
});

test('keys that are no text are returned as bytes', () => {
    const cache = cacheOf();
    const key = Buffer.from([0xff, 0x00]);
    cache.set(key, 'v');
    assert.deepEqual([...cache], [[key, 'v']]);
    assert.deepEqual(cache.getMany([key]).get(key), 'v');
});

test('several keys are read, stored and removed together', () => {
    const cache = cacheOf();
    const numbers = Array.from({ length: 100 }, (_, number) => [`k${number}`, number]);
    assert.deepEqual(cache.setMany(numbers), []);
    assert.deepEqual(cache.setMany(new Map(numbers)), []);
    assert.deepEqual(cache.getMany(numbers.map(([key]) => key)), new Map(numbers));
    assert.deepEqual(cache.getMany(['k1', 'absent', 'k1', 'k2']), new Map([['k1', 1], ['k2', 2]]));
    assert.deepEqual(cache.getMany(new Set()), new Map());
    assert.equal(cache.deleteMany(['k1', 'k2', 'absent', 'k1']), 2);
    const large = 'x'.repeat(2 << 20);
    assert.deepEqual(cache.setMany([['a', 1], ['large', large], ['b', 2]]), ['large']);
    assert.deepEqual(cache.getMany(['a', 'b', 'large']), new Map([['a', 1], ['b', 2]]));
    refuses('ERR_LARDER_ARGUMENT', () => cache.setMany([['c', 1], ['', 2], ['d', 3]]));
    assert.equal(cache.get('c'), 1);
});

test('add stores an absent item, and replace one that is present', () => {
    const cache = cacheOf();
    assert.equal(cache.replace('k', 1), false);
    assert.equal(cache.add('k', { a: 1 }), true);
    assert.equal(cache.add('k', 2), false);
    assert.deepEqual(cache.get('k'), { a: 1 });
    assert.equal(cache.replace('k', 'text', 5000), true);
    assert.equal(cache.get('k'), 'text');
    assert.ok(cache.ttlOf('k') <= 5000);
});

test('append and prepend extend text and bytes, and keep the time to live', () => {
    const cache = cacheOf();
    assert.equal(cache.append('k', 'x'), false);
    assert.equal(cache.prepend('k', Buffer.from('x')), false);
    cache.set('k', 'b', 50_000).set('bytes', Buffer.from([2]));
    assert.equal(cache.append('k', 'ü'), true);
    assert.equal(cache.prepend('k', 'a'), true);
    assert.equal(cache.append('k', ''), true);
    assert.equal(cache.get('k'), 'abü');
    assert.ok(cache.ttlOf('k') > 40_000 && cache.ttlOf('k') <= 50_000);
    assert.equal(cache.append('bytes', Buffer.from([3])), true);
    assert.equal(cache.prepend('bytes', new Uint16Array([1]).subarray(0, 1)), true);
    assert.deepEqual(cache.get('bytes'), Buffer.from([1, 0, 2, 3]));
    cache.set('long', 'x'.repeat(1_000_000));
    refuses('ERR_LARDER_TOO_LARGE', () => cache.append('long', 'x'.repeat(100_000)));
});

test('counters have 64 bits and a sign', () => {
    const cache = cacheOf();
    assert.equal(cache.increment('n'), 1);
    assert.equal(cache.increment('n', 5), 6);
    assert.equal(cache.decrement('n', 10), -4);
    assert.equal(cache.decrement('n'), -5);
    assert.equal(cache.increment('n', 0), -5);
    assert.equal(cache.increment('m', 1, { initial: 41, ttl: 5000 }), 42);
    assert.ok(cache.ttlOf('m') <= 5000);
    assert.equal(cache.decrement('o', 1, { initial: 10 }), 9);
    assert.equal(cache.increment('absent', 1, { initial: null }), undefined);
    assert.equal(cache.decrement('absent', 1, { initial: null }), undefined);
    assert.equal(cache.has('absent'), false);
    cache.set('n', 2 ** 53 - 1);
    assert.equal(cache.increment('n'), 2n ** 53n);
    assert.equal(cache.get('n'), 2n ** 53n);
    cache.set('n', 2n ** 63n - 1n);
    assert.equal(cache.increment('n'), -(2n ** 63n));
    assert.equal(cache.get('n'), -(2n ** 63n));
    assert.equal(cache.increment('n', Number.MAX_SAFE_INTEGER), -(2n ** 63n) + 2n ** 53n - 1n);
    for (const value of ['5', 1.5, true, null, [1]]) {
        cache.set('k', value);
        refuses('ERR_LARDER_NOT_A_NUMBER', () => cache.increment('k'), /'k' is not an integer/);
        assert.deepEqual(cache.get('k'), value);
    }
});

test('threads count together', async () => {
    const cache = cacheOf({ shared: newPath() });
    const script = `
        const cache = new Cache({ shared: workerData });
        for (let round = 0; round < 5000; round += 1) cache.increment('n');
        port.postMessage('done');`;
    const workers = [1, 2, 3].map(() => thread(script, cache.path));
    assert.deepEqual(await Promise.all(workers.map(message)), ['done', 'done', 'done']);
    assert.equal(cache.get('n'), 15_000);
});

test('a token shows whether an item was stored again', () => {
    const cache = cacheOf();
    assert.equal(cache.getWithToken('k'), undefined);
    assert.equal(cache.hasTokens, true);
    for (const value of [1, 'text', Buffer.alloc(100), { a: 1 }, 'x'.repeat(9000), Buffer.alloc(9000), ['x'.repeat(9000)]]) {
        cache.set('k', value);
        const { value: found, token } = cache.getWithToken('k');
        assert.deepEqual(found, value);
        cache.set('other', 1).get('other');
        assert.equal(cache.compareAndSet('k', 'next', token), true);
        assert.equal(cache.compareAndSet('k', { a: 'again' }, token), false);
        assert.equal(cache.get('k'), 'next');
        assert.notEqual(cache.getWithToken('k').token, token);
    }
    const { token } = cache.getWithToken('k');
    cache.delete('k');
    assert.equal(cache.compareAndSet('k', 1, token), undefined);
    assert.equal(cache.compareAndSet('k', 1, 0n), undefined);
});

test('a cache without tokens refuses what needs them', () => {
    const cache = cacheOf({ cas: false });
    cache.set('k', 1);
    assert.equal(cache.hasTokens, false);
    refuses('ERR_LARDER_NO_CAS', () => cache.getWithToken('k'), /cas: false/);
    refuses('ERR_LARDER_NO_CAS', () => cache.compareAndSet('k', 2, 1n));
    assert.equal(cache.pop('k'), 1);
    assert.equal(cache.pop('k'), undefined);
});

test('pop returns every kind of value, once', () => {
    const cache = cacheOf();
    for (const value of [1, null, 'x', Buffer.alloc(9000, 1), { a: [] }, '']) {
        assert.deepEqual(cache.set('k', value).pop('k'), value);
        assert.equal(cache.pop('k'), undefined);
    }
});

test('of several threads that pop an item exactly one receives it', async () => {
    const cache = cacheOf({ shared: newPath() });
    const count = 3000;
    for (let number = 0; number < count; number += 1) cache.set(`k${number}`, number);
    const script = `
        const cache = new Cache({ shared: workerData.path });
        const won = [];
        port.once('message', () => {
            for (let number = 0; number < workerData.count; number += 1) {
                const value = cache.pop('k' + number);
                if (value !== undefined) won.push(value);
            }
            port.postMessage(won);
        });
        port.postMessage('ready');`;
    const workers = [1, 2, 3].map(() => thread(script, { path: cache.path, count }));
    await Promise.all(workers.map(message));
    for (const worker of workers) worker.postMessage('start');
    const won = (await Promise.all(workers.map(message))).flat();
    assert.equal(won.length, count);
    assert.equal(new Set(won).size, count);
    assert.equal(cache.size, 0);
});

test('items expire, and touch gives them another time', async () => {
    const cache = cacheOf({ ttl: 3_600_000 });
    cache.set('default', 1).set('forever', 1, Infinity).set('short', 1, 500).set('kept', 1, 500);
    assert.ok(cache.ttlOf('default') > 3_590_000 && cache.ttlOf('default') <= 3_601_000);
    assert.equal(cache.ttlOf('forever'), Infinity);
    assert.equal(cache.ttlOf('absent'), undefined);
    assert.equal(cache.touch('kept'), true);
    assert.equal(cache.touch('absent', 1000), false);
    assert.equal(cache.touch('forever', 60_000), true);
    assert.ok(cache.ttlOf('forever') <= 60_000);
    await sleep(2100);
    assert.equal(cache.get('short'), undefined);
    assert.equal(cache.has('short'), false);
    assert.equal(cache.touch('short'), false);
    assert.equal(cache.get('kept'), 1);
    assert.ok(cache.ttlOf('kept') > 3_590_000);
});

test('a full cache evicts, or refuses stores with evict: false', () => {
    const evicting = new Cache({ memory: '4M' });
    for (let number = 0; number < 200; number += 1) evicting.set(`k${number}`, Buffer.alloc(100_000));
    assert.ok(evicting.size < 200 && evicting.size > 10);
    assert.ok(evicting.stats().evictions > 0);
    const keeping = new Cache({ memory: '4M', evict: false });
    const items = Array.from({ length: 200 }, (_, number) => [`k${number}`, Buffer.alloc(100_000)]);
    const failed = keeping.setMany(items);
    assert.ok(failed.length > 100 && failed.length < 190, `${failed.length} have failed`);
    refuses('ERR_LARDER_STORE', () => keeping.set('another', Buffer.alloc(100_000)));
    assert.equal(keeping.size, 200 - failed.length);
    assert.equal(keeping.get('k0').length, 100_000);
});

test('the statistics and the memory are numbers', () => {
    const cache = filled(100);
    const before = cache.stats();
    cache.get('k1');
    cache.get('absent');
    cache.peek('k2');
    const after = cache.stats();
    assert.equal(after.get_hits - before.get_hits, 1);
    assert.equal(after.get_misses - before.get_misses, 1);
    assert.equal(after.curr_items, 100);
    for (const [name, value] of Object.entries(after)) assert.ok(Number.isFinite(value), name);
    const memory = cache.memoryUsage();
    assert.deepEqual(Object.keys(memory).sort(), ['index', 'items', 'limit', 'used']);
    assert.ok(memory.limit <= 16 << 20 && memory.limit > 15 << 20);
    assert.ok(memory.items > 0 && memory.used <= memory.limit);
});

test('a lease has one owner until it ends', async () => {
    const cache = cacheOf();
    const lease = cache.lease('k', 60_000);
    assert.equal(cache.lease('k', 60_000), undefined);
    assert.equal(cache.has('k'), false);
    assert.equal(lease.release(), true);
    assert.equal(lease.release(), false);
    const short = cache.lease('k', 20);
    await sleep(50);
    const next = cache.lease('k', 60_000);
    assert.ok(next, 'the time of the first one is over');
    assert.equal(short.release(), false);
    assert.equal(cache.lease('k', 10), undefined);
    assert.equal(next.release(), true);
});

test('get of a damaged value fails, and later reads work', () => {
    // A program in another language can store these bytes with such flags.
    const cache = cacheOf({ codec: { tag: 6, encode: () => '{"a": ', decode: JSON.parse } });
    cache.set('k', {});
    refuses('ERR_LARDER_CODEC', () => cache.get('k'), /cannot be decoded/);
    refuses('ERR_LARDER_CODEC', () => cache.getMany(['k']));
    refuses('ERR_LARDER_CODEC', () => [...cache.values()]);
    refuses('ERR_LARDER_CODEC', () => cache.pop('k'));
    assert.deepEqual([...cache.keys()], ['k']);
    assert.equal(cache.set('k', 5).get('k'), 5);
});
