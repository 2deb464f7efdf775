// The storage adapter with Keyv, and without it. Keyv's own tests are run by test/suites/keyv.sh.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Worker } from 'node:worker_threads';

import Keyv from 'keyv';
import { Cache } from 'larder-cache';
import { KeyvLarder } from 'larder-cache/keyv';

const folder = mkdtempSync(join(tmpdir(), 'larder-keyv-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A cache of which all methods return promises, and which has only those of clients. */
function client(cache) {
    return Object.fromEntries(
        ['get', 'set', 'delete', 'getMany', 'close'].map((name) => [
            name,
            async (...args) => cache[name](...args),
        ]),
    );
}

test('Keyv stores values of all types', async () => {
    const keyv = new Keyv({ store: new KeyvLarder() });
    const values = ['text', 17, 1.5, true, null, { name: 'Ada' }, [1, 'é'], Buffer.from([0, 255])];
    for (const value of values) {
        await keyv.set('key', value);
        assert.deepEqual(await keyv.get('key'), value);
    }
});

test('threads share the items of a store with a shared cache', async () => {
    const shared = join(folder, 'threads.larder');
    const keyv = new Keyv({ store: new KeyvLarder({ shared, memory: '8M' }), namespace: 'n' });
    const program = `
        const { workerData } = require('node:worker_threads');
        const { Keyv } = require('keyv');
        const { KeyvLarder } = require('larder-cache/keyv');
        const store = new KeyvLarder({ shared: workerData });
        new Keyv({ store, namespace: 'n' }).set('greeting', 'hello').then(() => process.exit(0));
    `;
    const worker = new Worker(program, { eval: true, workerData: shared });
    await new Promise((resolve, reject) => worker.on('exit', resolve).on('error', reject));
    assert.equal(await keyv.get('greeting'), 'hello');
});

test('clear removes the items of its namespace only', async () => {
    const cache = new Cache();
    const [ours, others] = ['ours', 'others'].map(
        (namespace) => new Keyv({ store: new KeyvLarder(cache), namespace }),
    );
    await ours.set('key', 1);
    await others.set('key', 2);
    cache.set('plain', 3);
    await ours.clear();
    assert.equal(await ours.get('key'), undefined);
    assert.equal(await others.get('key'), 2);
    assert.equal(cache.get('plain'), 3);
});

test('a store without a namespace clears the whole cache', async () => {
    const cache = new Cache();
    cache.set('plain', 3);
    await new KeyvLarder(cache).clear();
    assert.equal(cache.get('plain'), undefined);
});

test('keys that differ after 250 bytes are different keys', async () => {
    const cache = new Cache();
    const keyv = new Keyv({ store: new KeyvLarder(cache), namespace: 'long' });
    const keys = ['x'.repeat(300), 'x'.repeat(301), `${'é'.repeat(150)}a`, `${'é'.repeat(150)}b`];
    for (const key of keys) await keyv.set(key, key.length);
    for (const key of keys) assert.equal(await keyv.get(key), key.length);
    assert.equal(cache.size, 4);
    for (const key of cache.keys()) {
        assert.equal(typeof key, 'string');
        assert.ok(Buffer.byteLength(key) <= 250, key);
    }
    for await (const [key, value] of keyv.iterator()) assert.equal(await keyv.get(key), value);
    assert.equal(await keyv.delete(keys[0]), true);
    assert.equal(await keyv.get(keys[0]), undefined);
    await keyv.clear();
    assert.equal(cache.size, 0);
});

test('many items are stored, found and removed at a time', async () => {
    const store = new KeyvLarder({ namespace: 'many' });
    const stored = await store.setMany([
        { key: 'a', value: 'A' },
        { key: 'b', value: 'B', ttl: 60_000 },
    ]);
    assert.deepEqual(stored, [true, true]);
    assert.deepEqual(await store.getMany(['b', 'none', 'a']), ['B', undefined, 'A']);
    assert.deepEqual(await store.hasMany(['b', 'none', 'a']), [true, false, true]);
    assert.equal(await store.deleteMany(['a', 'none']), true);
    assert.equal(await store.deleteMany(['a', 'none']), false);
    assert.equal(store.cache.ttlOf('many:b'), 60_000);
});

test('the iterator returns the items of its namespace', async () => {
    const cache = new Cache();
    const keyv = new Keyv({ store: new KeyvLarder(cache), namespace: 'ours' });
    const other = new Keyv({ store: new KeyvLarder(cache), namespace: 'others' });
    for (let i = 0; i < 200; i++) await keyv.set(`key:${i}`, i);
    await other.set('key', 1);
    const found = new Map();
    for await (const [key, value] of keyv.iterator()) found.set(key, value);
    assert.equal(found.size, 200);
    assert.equal(found.get('key:17'), 17);
});

test('a store that fails emits an error and returns false', async () => {
    const keyv = new Keyv({ store: new KeyvLarder({ memory: '8M', itemMax: 4096 }) });
    const errors = [];
    keyv.on('error', (error) => errors.push(error.code));
    assert.equal(await keyv.set('key', 'x'.repeat(5000)), false);
    assert.deepEqual(errors, ['ERR_LARDER_TOO_LARGE']);
});

test('without a listener, a failed operation rejects', async () => {
    const store = new KeyvLarder();
    await store.disconnect();
    await assert.rejects(store.get('key'), { code: 'ERR_LARDER_CLOSED' });
    store.on('error', () => {});
    assert.equal(await store.get('key'), undefined);
    assert.deepEqual(await store.getMany(['key']), [undefined]);
    assert.equal(await store.has('key'), false);
});

test('disconnect closes the cache of the store, not a given one', async () => {
    const cache = new Cache();
    await new KeyvLarder({ cache, namespace: 'n' }).disconnect();
    assert.equal(cache.closed, false);
    const store = new KeyvLarder();
    await store.disconnect();
    assert.equal(store.cache.closed, true);
});

test('a client with promises is a store', async () => {
    const cache = new Cache();
    const keyv = new Keyv({ store: new KeyvLarder({ cache: client(cache) }), namespace: 'n' });
    const errors = [];
    keyv.on('error', (error) => errors.push(error));
    await keyv.set('key', { name: 'Ada' }, 60_000);
    assert.deepEqual(await keyv.get(['key', 'none']), [{ name: 'Ada' }, undefined]);
    assert.equal(await keyv.has('key'), true);
    assert.equal(await keyv.delete('key'), true);
    await keyv.clear();
    assert.match(errors[0].message, /cannot remove the items of a namespace/);
    const whole = new KeyvLarder({ ...client(cache), flush: async () => cache.clear() });
    await whole.set('key', 'value');
    await whole.clear();
    assert.equal(await whole.get('key'), undefined);
});

test('wrong arguments are named', () => {
    assert.throws(() => new KeyvLarder('redis://'), { code: 'ERR_LARDER_ARGUMENT' });
    assert.throws(() => new KeyvLarder({ cache: {} }), /is a Cache or a client, found Object/);
    assert.throws(() => new KeyvLarder({ namespace: 17 }), /a namespace is a string, found 17/);
    assert.throws(() => new KeyvLarder({ namespace: 'x'.repeat(151) }), /at most 150 bytes/);
});
