// Arguments that are wrong: each is refused with a clear error, and none ends the process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import vm from 'node:vm';

import { Cache } from 'larder-cache';

import { message, newPath, refuses, thread } from './support.mjs';

const cache = new Cache({ memory: '16M' });
const canResize = 'resizable' in ArrayBuffer.prototype;

/** All methods with a key as their first argument. */
const KEYED = {
    get: (key) => cache.get(key),
    peek: (key) => cache.peek(key),
    getWithToken: (key) => cache.getWithToken(key),
    getMany: (key) => cache.getMany(['k', key]),
    set: (key) => cache.set(key, 1),
    setMany: (key) => cache.setMany([[key, 1]]),
    add: (key) => cache.add(key, {}),
    replace: (key) => cache.replace(key, 1),
    compareAndSet: (key) => cache.compareAndSet(key, 1, 1n),
    append: (key) => cache.append(key, 'x'),
    prepend: (key) => cache.prepend(key, 'x'),
    has: (key) => cache.has(key),
    delete: (key) => cache.delete(key),
    deleteMany: (key) => cache.deleteMany([key]),
    pop: (key) => cache.pop(key),
    touch: (key) => cache.touch(key),
    ttlOf: (key) => cache.ttlOf(key),
    increment: (key) => cache.increment(key),
    decrement: (key) => cache.decrement(key),
    lease: (key) => cache.lease(key, 10),
};

const hostile = Object.defineProperty({}, 'constructor', {
    get() { throw new Error('a getter was called'); },
});

function detached(length = 16) {
    const array = new Uint8Array(length).fill(65);
    structuredClone(array.buffer, { transfer: [array.buffer] });
    return array;
}

const WRONG_KEYS = [
    undefined, null, 5, 5n, true, Symbol('k'), {}, [], ['k'], () => 'k', new Uint16Array(2),
    new ArrayBuffer(2), new DataView(new ArrayBuffer(2)), new Proxy(new Uint8Array(2), {}),
    new String('k'), Object.create(null), hostile, Object.create(Uint8Array.prototype),
    '', 'k'.repeat(251), 'ü'.repeat(126), Buffer.alloc(0), Buffer.alloc(251, 65), '\ud800',
    `${'k'.repeat(100)}\udc00`, '\ufffd\ud800', detached(), 'k'.repeat(1_000_000),
];

for (const [name, call] of Object.entries(KEYED)) {
    test(`${name} refuses wrong keys`, () => {
        for (const key of WRONG_KEYS) refuses('ERR_LARDER_ARGUMENT', () => call(key));
    });
}

test('wrap refuses wrong keys, times and functions', async () => {
    const refused = async (...args) => {
        await assert.rejects(async () => await cache.wrap(...args), { code: 'ERR_LARDER_ARGUMENT' });
    };
    for (const key of WRONG_KEYS) await refused(key, 1000, () => 1);
    for (const load of [undefined, null, 5, {}, 'x']) await refused('k', 1000, load);
    for (const ttl of [0, -1, NaN, '5', null]) await refused('k', ttl, () => 1);
    for (const time of [-1, NaN, '5', null]) {
        for (const name of ['stale', 'lease', 'wait']) await refused('k', 1000, () => 1, { [name]: time });
    }
    for (const signal of [{}, 5, 'x']) await refused('k', 1000, () => 1, { signal });
    assert.equal(cache.has('k'), false);
});

test('keys of 1 and of 250 bytes are keys, as text and as bytes', () => {
    for (const key of ['k', 'k'.repeat(250), 'ü'.repeat(125), '\u{1f600}'.repeat(62), '\0', ' \r\n', '\ufffd']) {
        assert.equal(cache.set(key, 1).get(Buffer.from(key)), 1);
        assert.equal(cache.set(Buffer.from(key), 2).get(key), 2);
        assert.ok(cache.delete(key));
    }
    const bytes = Buffer.from([255, 0, 254]);
    assert.equal(cache.set(bytes, 1).get(new Uint8Array(bytes)), 1);
    assert.deepEqual([...cache.keys(Buffer.from([255]))], [bytes]);
});

test('arrays of another realm are bytes', () => {
    const array = vm.runInNewContext('new Uint8Array([107, 49])');
    assert.equal(array instanceof Uint8Array, false);
    assert.equal(cache.set(array, array).has('k1'), true);
    assert.deepEqual(cache.get('k1'), Buffer.from('k1'));
    assert.deepEqual(cache.set('k', vm.runInNewContext('new ArrayBuffer(3)')).get('k'), Buffer.alloc(3));
    assert.deepEqual(cache.set('k', vm.runInNewContext('({ a: [1] })')).get('k'), { a: [1] });
});

test('an array that lies about itself is stored as it is', () => {
    class Liar extends Uint8Array {
        get length() { return 1_000_000; }
        get byteLength() { return 1_000_000; }
        get byteOffset() { return -5; }
        get buffer() { return new ArrayBuffer(1); }
    }
    assert.deepEqual(cache.set('k', new Liar([1, 2, 3])).get('k'), Buffer.from([1, 2, 3]));
    assert.equal(cache.set(new Liar([107, 50]), 1).get('k2'), 1);
    // It hides that other threads can write to it.
    const memory = new Liar(new SharedArrayBuffer(4));
    assert.deepEqual(cache.set('k', memory).get('k'), Buffer.alloc(4));
    const view = new DataView(new ArrayBuffer(8), 2, 4);
    Object.defineProperties(view, { byteLength: { value: 1 << 30 }, byteOffset: { value: 0 } });
    assert.deepEqual(cache.set('k', view).get('k'), Buffer.alloc(4));
    for (const name of ['length', 'byteLength', 'buffer']) {
        const array = Object.defineProperty(new Uint8Array([1]), name, {
            get() { throw new Error('a getter was called'); },
        });
        assert.deepEqual(cache.set('k', array).get('k'), Buffer.from([1]));
    }
});

test('memory that was transferred is refused', () => {
    const view = new DataView(new ArrayBuffer(8));
    const floats = new Float64Array(4);
    const { buffer } = new Uint8Array(8);
    for (const moved of [view.buffer, floats.buffer, buffer]) structuredClone(moved, { transfer: [moved] });
    cache.set('k', 'kept').set('bytes', Buffer.from('kept'));
    for (const value of [detached(), detached(100_000), view, floats, buffer]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', value), /are gone/);
        refuses('ERR_LARDER_ARGUMENT', () => cache.append('bytes', value), /are gone/);
    }
    assert.equal(cache.get('k'), 'kept');
    assert.deepEqual(cache.get('bytes'), Buffer.from('kept'));
});

test('resizable memory is stored in its current size', { skip: !canResize && 'Node 20 is needed' }, () => {
    const buffer = new ArrayBuffer(8, { maxByteLength: 64 });
    const tracking = new Uint8Array(buffer);
    const fixed = new Uint8Array(buffer, 4, 4);
    tracking.fill(7);
    assert.equal(cache.set('k', tracking).get('k').length, 8);
    buffer.resize(64);
    assert.equal(cache.set('k', tracking).get('k').length, 64);
    assert.deepEqual(cache.set('k', fixed).get('k'), Buffer.alloc(4, 7));
    buffer.resize(6);
    assert.deepEqual(cache.set('k', tracking).get('k'), Buffer.alloc(6, 7));
    refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', fixed), /are gone/);
    refuses('ERR_LARDER_ARGUMENT', () => cache.get(fixed), /are gone/);
    refuses('ERR_LARDER_ARGUMENT', () => cache.set('k', new DataView(buffer, 0, 6) && fixed));
    buffer.resize(0);
    assert.deepEqual(cache.set('k', tracking).get('k'), Buffer.alloc(0));
    const growing = new Uint8Array(new SharedArrayBuffer(4, { maxByteLength: 64 }));
    growing.buffer.grow(32);
    assert.deepEqual(cache.set('k', growing).get('k'), Buffer.alloc(32));
});

test('another thread may write to memory while it is stored', async () => {
    const bytes = new Uint8Array(new SharedArrayBuffer(20_000));
    const worker = thread(`
        const bytes = new Uint8Array(workerData);
        port.postMessage('ready');
        for (let round = 0; Atomics.load(bytes, 0) === 0; round += 1) bytes.fill(round & 255, 1);
        port.postMessage('ended');`, bytes.buffer);
    await message(worker);
    for (let round = 0; round < 3000; round += 1) {
        cache.set('k', bytes);
        assert.equal(cache.get('k').length, bytes.length);
        const key = bytes.subarray(100, 350);
        cache.set(key, round).get(key);
    }
    Atomics.store(bytes, 0, 1);
    assert.equal(await message(worker), 'ended');
});

test('values that throw when they are read are refused', () => {
    cache.set('k', 'kept');
    const getter = Object.defineProperty({}, 'a', { enumerable: true, get() { throw new Error('read'); } });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const value of [getter, proxy, { toJSON() { throw null; } }]) {
        refuses('ERR_LARDER_CODEC', () => cache.set('k', value), /cannot be encoded/);
    }
    assert.deepEqual(cache.set('proxy', new Proxy({ a: 1 }, {})).get('proxy'), { a: 1 });
    assert.equal(cache.get('k'), 'kept');
});

test('times to live that are wrong are refused', () => {
    cache.set('k', 1);
    for (const ttl of [0, -1, -Infinity, NaN, '5', null, 5n, true, {}, new Date()]) {
        for (const call of [
            () => cache.set('t', 1, ttl), () => cache.add('t', 1, ttl), () => cache.touch('k', ttl),
            () => cache.increment('n', 1, { ttl }), () => cache.setMany([['t', 1]], ttl), () => new Cache({ ttl }),
        ]) refuses('ERR_LARDER_ARGUMENT', call, /ttl is/);
    }
    assert.equal(cache.has('t'), false);
    for (const ttl of [0.1, 1, 1e12, 1e300, Infinity, undefined]) cache.set('t', 1, ttl).get('t');
});

test('steps, tokens and durations that are wrong are refused', () => {
    for (const delta of [1.5, NaN, Infinity, '5', 5n, null, true, 2 ** 53]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.increment('n', delta));
        refuses('ERR_LARDER_ARGUMENT', () => cache.decrement('n', delta));
        if (delta !== null) refuses('ERR_LARDER_ARGUMENT', () => cache.increment('n', 1, { initial: delta }));
    }
    cache.set('k', 1);
    for (const token of [undefined, null, 5, '5', -1n, 2n ** 64n]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.compareAndSet('k', 2, token), /token/);
    }
    const { token } = cache.getWithToken('k');
    refuses('ERR_LARDER_ARGUMENT', () => cache.compareAndSet('k', 2, token + 2n ** 64n));
    assert.equal(cache.compareAndSet('k', 2, 0n), false);
    assert.equal(cache.get('k'), 1);
    for (const millis of [undefined, null, -1, NaN, '5', 5n]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.lease('k', millis));
    }
});

test('parts and prefixes that are wrong are refused', () => {
    cache.set('text', 'x').set('bytes', Buffer.from('x')).set('number', 5);
    for (const part of [undefined, null, 5, {}, [], Symbol('x')]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.append('text', part), /only text and bytes/);
    }
    refuses('ERR_LARDER_ARGUMENT', () => cache.append('text', Buffer.from('y')), /not bytes/);
    refuses('ERR_LARDER_ARGUMENT', () => cache.prepend('bytes', 'y'), /not text/);
    refuses('ERR_LARDER_ARGUMENT', () => cache.append('number', '1'), /not text/);
    for (const prefix of [null, 5, {}, Symbol('x'), '\ud800', new Uint16Array(1)]) {
        refuses('ERR_LARDER_ARGUMENT', () => cache.removePrefix(prefix));
        refuses('ERR_LARDER_ARGUMENT', () => [...cache.keys(prefix)]);
        refuses('ERR_LARDER_ARGUMENT', () => [...cache.entries(prefix)]);
    }
    assert.equal(cache.removePrefix('x'.repeat(10_000)), 0);
    assert.equal(cache.removePrefix(Buffer.alloc(1000)), 0);
});

test('options that are wrong are refused', () => {
    for (const memory of ['x', '64Q', -1, NaN, 1.5, '1e3', '', null, {}, 5n ** 40n, Object.create(null)]) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ memory }), /memory is/);
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ itemMax: memory }), /itemMax is/);
    }
    for (const shared of ['', 5, null, {}, Buffer.from('x')]) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ shared }), /shared is/);
    }
    for (const processes of [0, -1, 4097, 1.5, '5', null]) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ processes }), /processes is/);
    }
    for (const permissions of [-1, 0o1000, 1.5, '600', null]) {
        refuses('ERR_LARDER_ARGUMENT', () => new Cache({ permissions }), /permissions are/);
    }
    refuses('ERR_LARDER_OPEN', () => new Cache({ memory: 1000 }), /1000 bytes/);
    refuses('ERR_LARDER_OPEN', () => new Cache({ memory: '16M', itemMax: '1T' }));
    refuses('ERR_LARDER_OPEN', () => new Cache({ memory: '4M', shared: `${newPath()}\0x` }));
    assert.throws(() => Cache(), TypeError);
});

test('a closed cache refuses all operations', async () => {
    const closed = new Cache({ memory: '4M' });
    closed.set('k', 1);
    const walk = closed.keys();
    assert.equal(walk.next().value, 'k');
    assert.equal(closed.closed, false);
    closed.close();
    closed.close();
    assert.equal(closed.closed, true);
    const calls = [
        () => closed.get('k'), () => closed.set('k', 1), () => closed.set('k', {}), () => closed.has('k'),
        () => closed.delete('k'), () => closed.size, () => closed.clear(), () => closed.stats(), () => [...closed],
        () => closed.memoryUsage(), () => closed.getMany(['k']), () => closed.increment('k'), () => closed.pop('k'),
        () => closed.touch('k'), () => closed.ttlOf('k'), () => closed.lease('k', 10), () => closed.append('k', 'x'),
        () => closed.removePrefix(''), () => closed.getWithToken('k'), () => closed.hasTokens, () => closed.peek('k'),
        () => closed.forEach(() => 1), () => closed.setMany([['k', 1]]), () => closed.getMany(['k']),
    ];
    for (const call of calls) refuses('ERR_LARDER_CLOSED', call, /is closed/);
    await assert.rejects(async () => await closed.wrap('k', 1000, () => 1), { code: 'ERR_LARDER_CLOSED' });
    assert.deepEqual(closed.getMany([]), new Map());
});

test('methods refuse another object as this', async () => {
    for (const name of ['get', 'set', 'close', 'pop']) {
        assert.throws(() => Cache.prototype[name].call({}, 'k', 1, () => 1), TypeError);
    }
    await assert.rejects(Cache.prototype.wrap.call({}, 'k', 1, () => 1), TypeError);
});

test('wrap rejects for wrong arguments, as for all errors', async () => {
    const cache = new Cache({ memory: '16M' });
    const wrong = [['', 1, () => 1], ['k', -1, () => 1], ['k', 1, 7], ['k', 1, () => 1, { stale: 'x' }]];
    for (const args of wrong) {
        await assert.rejects(cache.wrap(...args), { code: 'ERR_LARDER_ARGUMENT' }, String(args));
    }
});

test('a string is not several keys', () => {
    const cache = new Cache({ memory: '16M' }).set('a', 1);
    for (const name of ['getMany', 'deleteMany']) {
        assert.throws(() => cache[name]('abc'), { code: 'ERR_LARDER_ARGUMENT' }, name);
    }
    assert.ok(cache.has('a'));
});
