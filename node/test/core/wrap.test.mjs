// wrap in one thread: one caller loads the value, the others wait.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cache } from 'larder-cache';

import { newPath, until, warningsOf } from './support.mjs';

const never = () => new Promise(() => undefined);
const unexpected = () => assert.fail('this loader must not be called');

/** A loader whose promise the test settles. */
function held() {
    const loader = () => {
        loader.calls += 1;
        return new Promise((resolve, reject) => Object.assign(loader, { resolve, reject }));
    };
    return Object.assign(loader, { calls: 0 });
}

/** Runs a test with a cache in the process and with one in a file. */
function both(name, run) {
    test(name, async () => await run(new Cache({ memory: '16M' })));
    test(`${name}, in a file`, async () => await run(new Cache({ memory: '16M', shared: newPath() })));
}

both('a miss loads the value, and a hit does not', async (cache) => {
    assert.equal(await cache.wrap('k', 60_000, () => 'loaded'), 'loaded');
    assert.equal(await cache.wrap('k', 60_000, unexpected), 'loaded');
    assert.equal(cache.get('k'), 'loaded');
    assert.ok(cache.ttlOf('k') <= 60_000);
    assert.deepEqual(await cache.wrap('json', undefined, async () => ({ a: [1] })), { a: [1] });
    assert.deepEqual(cache.get('json'), { a: [1] });
    assert.equal(cache.ttlOf('json'), Infinity);
    for (const [number, value] of [null, false, 0, '', Buffer.alloc(0)].entries()) {
        assert.deepEqual(await cache.wrap(`v${number}`, 1000, () => value), value);
        assert.deepEqual(await cache.wrap(`v${number}`, 1000, unexpected), value);
    }
});

both('of many callers one loads', async (cache) => {
    const loader = held();
    const callers = Array.from({ length: 50 }, () => cache.wrap('k', 1000, loader));
    const own = cache.wrap(Buffer.from('k'), 1000, loader);
    await sleep(60);
    assert.equal(loader.calls, 1);
    loader.resolve('v');
    assert.deepEqual(await Promise.all([...callers, own]), Array(51).fill('v'));
    assert.equal(loader.calls, 1);
});

test('callers of the thread are woken when the load ends', async () => {
    const cache = new Cache({ memory: '4M' });
    const loader = held();
    const callers = [1, 2, 3].map(() => cache.wrap('k', 1000, loader));
    await sleep(300);
    const began = performance.now();
    loader.resolve('v');
    await Promise.all(callers);
    assert.ok(performance.now() - began < 40, `${performance.now() - began} ms`);
});

both('an error reaches all callers that wait, and is not cached', async (cache) => {
    const boom = new RangeError('boom');
    const loader = held();
    const callers = Array.from({ length: 5 }, () => cache.wrap('k', 1000, loader));
    await sleep(30);
    loader.reject(boom);
    for (const { reason } of await Promise.allSettled(callers)) assert.equal(reason, boom);
    assert.equal(loader.calls, 1);
    assert.equal(await cache.wrap('k', 1000, () => 'next'), 'next');
    assert.deepEqual([...cache.keys()], ['k'], 'the note about the error is not an item');
});

both('a loader may throw anything', async (cache) => {
    const strange = Object.defineProperty(new Error('x'), 'name', { get() { throw new Error('name'); } });
    const thrown = [new Error('sync'), 'text', 5, Symbol('s'), Object.create(null), false, strange];
    for (const value of [...thrown, null, undefined]) {
        for (const loader of [() => { throw value; }, async () => { throw value; }]) {
            const [outcome] = await Promise.allSettled([cache.wrap('k', 1000, loader)]);
            assert.equal(outcome.status, 'rejected');
            assert.equal(outcome.reason, value);
        }
    }
    const long = new Error('ü'.repeat(100_000));
    await assert.rejects(cache.wrap('k', 1000, () => Promise.reject(long)), (error) => error === long);
    const lease = cache.lease('k', 1000);
    assert.ok(lease, 'no load holds its lease');
});

test('the error of a loader is thrown also if the note about it cannot be stored', async () => {
    const boom = new Error('x'.repeat(5000));
    const small = new Cache({ memory: '4M', itemMax: 1024, shared: newPath() });
    await assert.rejects(small.wrap('k', 1000, () => { throw boom; }), (error) => error === boom);
    const closing = new Cache({ memory: '4M', shared: newPath() });
    const load = closing.wrap('k', 1000, () => { closing.close(); throw boom; });
    await assert.rejects(load, (error) => error === boom);
});

test('a cache may be closed during a load', async () => {
    const cache = new Cache({ memory: '4M' });
    const loader = held();
    const callers = [cache.wrap('k', 1000, loader), cache.wrap('k', 1000, loader)];
    cache.close();
    loader.resolve('v');
    const [leader, waiting] = await Promise.allSettled(callers);
    assert.equal(leader.value, 'v');
    assert.equal(waiting.reason.code, 'ERR_LARDER_CLOSED');
});

both('a result that cannot be stored reaches its caller', async (cache) => {
    assert.equal(await cache.wrap('k', 1000, () => undefined), undefined);
    assert.equal((await cache.wrap('k', 1000, () => Buffer.alloc(2 << 20))).length, 2 << 20);
    assert.equal(cache.has('k'), false);
    for (const value of [() => 1, Symbol('s'), new Map(), 2n ** 70n]) {
        await assert.rejects(cache.wrap('k', 1000, () => value), { code: 'ERR_LARDER_ARGUMENT' });
    }
    await assert.rejects(cache.wrap('k', 1000, () => [1n]), { code: 'ERR_LARDER_CODEC' });
    assert.equal(await cache.wrap('k', 1000, () => 'v'), 'v');
    assert.equal(await cache.wrap('text', 1000, () => 'a\ud800'), 'a\ud800');
    assert.equal(cache.get('text'), 'a\ud800');
});

both('a key that changes during the load keeps its new state', async (cache) => {
    const changes = {
        deleted: () => cache.delete('k'),
        popped: () => cache.pop('k'),
        cleared: () => cache.clear(),
        'removed with its prefix': () => cache.removePrefix('k'),
    };
    for (const [name, change] of Object.entries(changes)) {
        const loader = held();
        const load = cache.wrap('k', 1000, loader);
        change();
        loader.resolve('outdated');
        assert.equal(await load, 'outdated');
        assert.equal(cache.get('k'), undefined, name);
    }
    const loader = held();
    const callers = [cache.wrap('k', 1000, loader), cache.wrap('k', 1000, loader)];
    cache.set('k', 'stored');
    loader.resolve('outdated');
    assert.deepEqual(await Promise.all(callers), ['outdated', 'stored']);
    assert.equal(cache.get('k'), 'stored');
    assert.equal(await cache.wrap('k', 1000, unexpected), 'stored');
});

both('an aborted caller leaves, and the load goes on', async (cache) => {
    const [loader, controller] = [held(), new AbortController()];
    const leader = cache.wrap('k', 1000, loader);
    const waiting = cache.wrap('k', 1000, unexpected, { signal: controller.signal });
    await sleep(20);
    controller.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
    loader.resolve('v');
    assert.equal(await leader, 'v');
});

both('an aborted leader leaves the load to another caller', async (cache) => {
    const controller = new AbortController();
    let signal;
    const leader = cache.wrap('k', 1000, (context) => ((signal = context.signal), never()), { signal: controller.signal });
    const waiting = cache.wrap('k', 1000, () => 'ours');
    await sleep(20);
    assert.equal(signal.aborted, false);
    const began = performance.now();
    const reason = new Error('enough');
    controller.abort(reason);
    await assert.rejects(leader, (error) => error === reason);
    assert.equal(signal.reason, reason);
    assert.equal(await waiting, 'ours');
    assert.ok(performance.now() - began < 1000);
});

both('a result after the abort is not stored', async (cache) => {
    const [loader, controller] = [held(), new AbortController()];
    const leader = cache.wrap('k', 1000, loader, { signal: controller.signal });
    controller.abort();
    await assert.rejects(leader, { name: 'AbortError' });
    loader.resolve('late');
    await sleep(5);
    assert.equal(cache.get('k'), undefined);
    const failing = cache.wrap('k', 1000, held(), { signal: AbortSignal.timeout(10) });
    // The timer of a signal keeps no process alive.
    await Promise.all([sleep(50), assert.rejects(failing, { name: 'TimeoutError' })]);
    const aborted = cache.wrap('k', 1000, unexpected, { signal: AbortSignal.abort() });
    await assert.rejects(aborted, { name: 'AbortError' });
});

test('a signal that lives long keeps no listeners', async () => {
    const cache = new Cache({ memory: '4M' });
    const { signal } = new AbortController();
    const warnings = await warningsOf(async () => {
        for (let number = 0; number < 50; number += 1) {
            await cache.wrap(`k${number}`, 1000, async () => await sleep(1), { signal });
        }
        const loader = held();
        const callers = Array.from({ length: 100 }, () => cache.wrap('k', 1000, loader, { signal }));
        await sleep(100);
        loader.resolve(1);
        await Promise.all(callers);
    });
    assert.deepEqual(warnings, []);
});

both('callers receive the old value while one refreshes it', async (cache) => {
    const options = { stale: 60_000 };
    assert.equal(await cache.wrap('k', 1000, () => 'old', options), 'old');
    assert.ok(cache.ttlOf('k') > 50_000);
    assert.equal(await cache.wrap('k', 1000, unexpected, options), 'old');
    await sleep(2100);
    const loader = held();
    const callers = Array.from({ length: 10 }, () => cache.wrap('k', 1000, loader, options));
    assert.deepEqual(await Promise.all(callers), Array(10).fill('old'));
    assert.equal(loader.calls, 1);
    loader.resolve('new');
    await until(() => cache.get('k') === 'new', 'the refresh');
    assert.equal(await cache.wrap('k', 1000, unexpected, options), 'new');
});

both('a refresh that fails keeps the old value', async (cache) => {
    const errors = [];
    const options = { stale: 60_000, onRefreshError: (error) => errors.push(error) };
    await cache.wrap('k', 1000, () => 'old', options);
    await sleep(2100);
    const boom = new Error('boom');
    const failing = () => { throw boom; };
    assert.equal(await cache.wrap('k', 1000, failing, options), 'old');
    await until(() => errors.length > 0, 'the error');
    assert.deepEqual(errors, [boom]);
    assert.equal(await cache.wrap('k', 1000, unexpected, options), 'old', 'not at once again');
    await sleep(1010);
    const warnings = await warningsOf(async () => {
        assert.equal(await cache.wrap('k', 1000, failing, { stale: 60_000 }), 'old');
        await sleep(5);
    });
    assert.deepEqual(warnings.map(({ name }) => name), ['LarderWarning']);
    assert.match(warnings[0].message, /could not be refreshed, so the old one stays: Error: boom/);
    await sleep(1010);
    assert.equal(await cache.wrap('k', 1000, () => 'new', options), 'old');
    await until(() => cache.get('k') === 'new', 'the refresh');
});

test('an abort of the caller does not end the refresh', async () => {
    const cache = new Cache({ memory: '4M' });
    const [loader, controller] = [held(), new AbortController()];
    const options = { stale: 60_000, signal: controller.signal };
    await cache.wrap('k', 1000, () => 'old', options);
    await sleep(2100);
    assert.equal(await cache.wrap('k', 1000, loader, options), 'old');
    controller.abort();
    loader.resolve('new');
    await until(() => cache.get('k') === 'new', 'the refresh');
});

test('times without a limit are times', async () => {
    const cache = new Cache({ memory: '4M' });
    const options = { stale: Infinity, lease: Infinity };
    assert.equal(await cache.wrap('k', 60_000, () => 'v', options), 'v');
    assert.equal(await cache.wrap('k', 60_000, unexpected, options), 'v');
    assert.ok(cache.ttlOf('k') > 1e10 && cache.ttlOf('k') < Infinity);
    assert.equal(await cache.wrap('k', 60_000, unexpected, options), 'v');
    assert.equal(await cache.wrap('m', 1e15, () => 'v', { stale: 1e15, lease: 1e15 }), 'v');
    assert.equal(await cache.wrap('m', 1e15, unexpected), 'v');
});

both('a loader that waits for itself is refused', async (cache) => {
    const outer = () => cache.wrap('k', 1000, unexpected);
    await assert.rejects(cache.wrap('k', 1000, outer), { code: 'ERR_LARDER_RECURSIVE' });
    const bytes = () => cache.wrap(Buffer.from('ü'), 1000, unexpected);
    await assert.rejects(cache.wrap('ü', 1000, bytes), { code: 'ERR_LARDER_RECURSIVE' });
    const through = () => cache.wrap('b', 1000, () => cache.wrap('a', 1000, unexpected));
    await assert.rejects(cache.wrap('a', 1000, through), { code: 'ERR_LARDER_RECURSIVE' });
    assert.equal(await cache.wrap('a', 1000, () => cache.wrap('b', 1000, () => 'v')), 'v');
    // U+00FC as text has other bytes than this key.
    const other = () => cache.wrap(Buffer.from([0xfc]), 1000, () => 'other');
    assert.equal(await cache.wrap('ü', 1000, other), 'other');
});

both('what a loader leaves running may load the key later', async (cache) => {
    let later;
    const loader = () => {
        later = sleep(20).then(() => cache.wrap('k', 1000, () => 'later'));
    };
    await cache.wrap('k', 1000, loader);
    assert.equal(await later, 'later');
});

both('two loaders that wait for each other both end', async (cache) => {
    const began = performance.now();
    const of = (key, next) => cache.wrap(key, 1000, async () => {
        await sleep(20);
        return await cache.wrap(next, 1000, async () => `own of ${key}`);
    });
    const values = await Promise.all([of('a', 'b'), of('b', 'a')]);
    assert.equal(values.length, 2);
    assert.ok(performance.now() - began < 5000);
});

both('others do not wait longer than they want for a loader that does not end', async (cache) => {
    void cache.wrap('k', 1000, never, { lease: 200 });
    const began = performance.now();
    assert.equal(await cache.wrap('k', 1000, () => 'next'), 'next');
    const waited = performance.now() - began;
    assert.ok(waited > 100 && waited < 1500, `${waited} ms`);
    void cache.wrap('m', 1000, never);
    assert.equal(await cache.wrap('m', 1000, () => 'own', { wait: 50 }), 'own');
    void cache.wrap('n', 1000, never);
    assert.equal(await cache.wrap('n', 1000, () => 'own', { wait: 0 }), 'own');
});

test('a value that cannot be decoded is loaded again, with a warning', async () => {
    const shared = newPath();
    const codec = { tag: 15, encode: () => 'x', decode: () => { throw new Error('unknown class'); } };
    const cache = new Cache({ memory: '4M', shared, codec });
    cache.set('k', {});
    const warnings = await warningsOf(async () => {
        assert.equal(await cache.wrap('k', 1000, () => 'v'), 'v');
    });
    assert.match(warnings[0].message, /"k" is loaded again: the value cannot be decoded: unknown class/);
    assert.equal(cache.get('k'), 'v');
});

test('a codec may load another key while a value is read', async () => {
    const cache = new Cache({
        memory: '4M',
        codec: {
            tag: 14,
            encode: JSON.stringify,
            decode: (bytes) => {
                cache.set('short', 1, 1000).get('short');
                return JSON.parse(bytes);
            },
        },
    });
    const options = { stale: 30_000 };
    assert.deepEqual(await cache.wrap('k', 60_000, () => [1], options), [1]);
    assert.deepEqual(await cache.wrap('k', 60_000, unexpected, options), [1], 'it is fresh');
});

test('a full cache that does not evict calls all loaders', async () => {
    const cache = new Cache({ memory: '4M', evict: false, shared: newPath() });
    cache.setMany(Array.from({ length: 100 }, (_, number) => [`k${number}`, Buffer.alloc(100_000)]));
    for (let size = 60_000; size >= 1; size = Math.floor(size / 3)) {
        for (let number = 0; ; number += 1) {
            if (cache.setMany([[`s${size}-${number}`, Buffer.alloc(size)]]).length > 0) break;
        }
    }
    const boom = new Error('boom');
    assert.equal(await cache.wrap('new', 1000, () => 'v'.repeat(1000)), 'v'.repeat(1000));
    await assert.rejects(cache.wrap('other', 1000, () => { throw boom; }), (error) => error === boom);
});

test('callers that wait for a result that cannot be stored load together', async () => {
    const small = new Cache({ memory: '16M', itemMax: 2048 });
    for (const result of [undefined, 'x'.repeat(5000)]) {
        let running = 0;
        let most = 0;
        const load = async () => {
            most = Math.max(most, ++running);
            await sleep(50);
            running--;
            return result;
        };
        const loads = Array.from({ length: 20 }, () => small.wrap('k', 60_000, load));
        assert.deepEqual(await Promise.all(loads), Array(20).fill(result));
        assert.ok(most > 10, `${most} loads at the same time`);
    }
});
